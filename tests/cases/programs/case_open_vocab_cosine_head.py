# kind: saved
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)


class ClassHead(nn.Module):
    def __init__(self, vision_dim, text_dim, dim):
        super().__init__()
        self.image_proj = nn.Linear(vision_dim, dim)
        self.text_proj = nn.Linear(text_dim, dim)
        self.logit_scale = nn.Linear(vision_dim, 1)
        self.logit_shift = nn.Linear(vision_dim, 1)

    def forward(self, patches, queries, query_mask):
        image_embeds = self.image_proj(patches)
        query_embeds = self.text_proj(queries)
        image_embeds /= torch.linalg.norm(image_embeds, dim=-1, keepdim=True) + 1e-6  # saves, overwrites
        query_embeds /= torch.linalg.norm(query_embeds, dim=-1, keepdim=True) + 1e-6  # saves, overwrites
        logits = torch.einsum("bpd,bqd->bpq", image_embeds, query_embeds)
        scale = F.elu(self.logit_scale(patches)) + 1
        logits = (logits + self.logit_shift(patches)) * scale
        return logits.masked_fill(query_mask[:, None, :] == 0, -1e4)


head = ClassHead(vision_dim=24, text_dim=12, dim=16)
opt = torch.optim.AdamW(head.parameters(), lr=1e-3)
patches = torch.randn(2, 9, 24)
queries = torch.randn(2, 4, 12)
mask = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])
target = torch.randint(0, 3, (2, 9))

logits = head(patches, queries, mask)
loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
loss.backward()
grads = sum(p.grad.abs().sum() for p in head.parameters())
opt.step()
print(f"RESULT {loss.item():.5f} {grads.item():.5f}")
