# kind: leaf-view, tensor: self.delta
import torch
from torch import nn


class Attack(nn.Module):
    def __init__(self):
        super().__init__()
        self.delta = nn.Parameter(torch.zeros(2, 3))

    def forward(self, x):
        self.delta[:, 0] = 0  # overwrites
        return x + self.delta


Attack()(torch.ones(2, 3)).sum().backward()
