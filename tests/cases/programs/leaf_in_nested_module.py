# kind: leaf, tensor: self.codebook
import torch
from torch import nn


class Quantiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.codebook = nn.Parameter(torch.randn(5, 2))

    def update(self, usage):
        self.codebook.mul_(usage)  # overwrites


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([Quantiser() for _ in range(2)])

    def forward(self, usage):
        for stage in self.stages:
            stage.update(usage)


Model()(torch.tensor(0.9))
