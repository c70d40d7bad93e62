# kind: saved, tensor: weights
import math

import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x, pad):
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores, dim=-1)  # saves
        weights.masked_fill_(pad[:, None, :], 0.0)  # overwrites
        return torch.matmul(weights, v)


torch.manual_seed(0)
attn = SelfAttention(8)
pad = torch.zeros(2, 5, dtype=torch.bool)
pad[:, -1] = True
attn(torch.randn(2, 5, 8), pad).sum().backward()
