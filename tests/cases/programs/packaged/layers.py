import torch
from torch import nn

from .ops.pointwise import rescale


class Gate(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.fc = nn.Linear(n, n)

    def forward(self, x):
        g = torch.sigmoid(self.fc(x))  # saves
        return rescale(g, 2.0) * x
