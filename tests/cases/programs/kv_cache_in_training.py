# kind: saved, tensor: self.keys
import torch
from torch import nn


class CachedAttention(nn.Module):
    def __init__(self, width=4, length=3):
        super().__init__()
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, width)
        self.register_buffer("keys", torch.zeros(length, width), persistent=False)

    def forward(self, x, position):
        self.keys[position] = self.k(x)  # overwrites
        return (self.keys @ self.q(x)).softmax(0)  # saves


torch.manual_seed(0)
attention = CachedAttention()
loss = sum(attention(torch.randn(4), t).max() for t in range(3))
loss.backward()
