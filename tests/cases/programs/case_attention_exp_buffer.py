# kind: out-arg
import torch
import torch.nn as nn

torch.manual_seed(7)


class LeanAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
        attn = attn - attn.amax(dim=-1, keepdim=True).detach()
        torch.exp(attn, out=attn)  # overwrites
        attn = attn / attn.sum(dim=-1, keepdim=True)
        y = (attn @ v).transpose(1, 2).reshape(b, n, c)
        return self.proj(y)


block = LeanAttention(16, 4)
x = torch.randn(2, 6, 16)
loss = block(x).pow(2).mean()
loss.backward()
grads = sum(p.grad.abs().sum() for p in block.parameters())
print(f"RESULT {loss.item():.5f} {grads.item():.5f}")
