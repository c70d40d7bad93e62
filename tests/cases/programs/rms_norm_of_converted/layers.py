import torch
from torch import nn


def rms_(x, eps=1e-6):
    variance = x.pow(2).mean(-1, keepdim=True)  # saves
    x *= torch.rsqrt(variance + eps)  # overwrites
    return x


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return rms_(x.float()).to(x.dtype) * self.weight
