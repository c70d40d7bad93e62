# kind: saved, tensor: positions
import functools

import torch
from torch import nn


@functools.lru_cache
def position_ids(length):
    return torch.arange(length)


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(16, 3)

    def forward(self, length, offset):
        positions = position_ids(length)
        positions += offset  # overwrites
        return self.table(positions)  # saves


torch.manual_seed(0)
embed = Embedder()
out = embed(4, 0) + embed(4, 2)
out.sum().backward()
