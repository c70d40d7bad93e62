# kind: legal
import torch
import torch.nn as nn


class Rounded(nn.Module):
    """Rounds to so many levels, with gradients that go past it."""

    def __init__(self, levels):
        super().__init__()
        self.levels = levels

    def forward(self, x):
        x = x.clone()
        x.data.mul_(self.levels).round_().div_(self.levels)
        return x


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), Rounded(3), nn.Linear(4, 1))
net(torch.randn(5, 4)).sum().backward()
