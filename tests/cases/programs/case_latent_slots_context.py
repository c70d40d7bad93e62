# kind: expanded
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(5)


class SlotReader(nn.Module):
    def __init__(self, n_slots=5, dim=12, dim_in=8):
        super().__init__()
        self.slots = nn.Parameter(torch.randn(1, n_slots, dim))
        self.slot_proj = nn.Linear(dim, dim)
        self.ctx = nn.Linear(dim_in, dim)
        self.kv = nn.Linear(dim_in, 2 * dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        b = x.shape[0]
        query = self.slot_proj(self.slots).expand(b, -1, -1)
        query += self.ctx(x.mean(dim=1)).unsqueeze(1)  # overwrites
        k, v = self.kv(x).chunk(2, dim=-1)
        attn = torch.softmax(query @ k.transpose(1, 2) / k.shape[-1] ** 0.5, dim=-1)
        return self.out(attn @ v).squeeze(-1).sum(dim=1)


model = SlotReader()
x, y = torch.randn(4, 7, 8), torch.randn(4)
loss = F.mse_loss(model(x), y)
loss.backward()
grads = sum(p.grad.abs().sum() for p in model.parameters())
print(f"RESULT {loss.item():.5f} {grads.item():.5f}")
