# kind: legal
"""What is turned round is copied by a batched product: the query may be written after it."""

import torch
import torch.nn.functional as F
from torch import nn


class WindowAttention(nn.Module):
    def __init__(self, width=6, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.logit_scale = nn.Parameter(torch.zeros(heads, 1, 1))

    def forward(self, x):
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        q = F.normalize(q, dim=-1)
        similarity = q @ F.normalize(k, dim=-1).transpose(-2, -1)
        q *= self.logit_scale.exp()
        attn = (similarity + q.mean(-1, keepdim=True)).softmax(-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(b, n, c))


torch.manual_seed(0)
attention = WindowAttention()
loss = attention(torch.randn(2, 4, 6)).pow(2).sum()
loss.backward()
