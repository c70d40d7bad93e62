# kind: multi-view, tensor: q
import torch
from torch import nn


def rotate(q, k, angle):
    q *= torch.cos(angle)  # overwrites
    k *= torch.cos(angle)
    return q, k


torch.manual_seed(0)
qk = nn.Linear(4, 8)(torch.randn(3, 4))
q, k = qk.chunk(2, -1)
rotate(q, k, torch.rand(4))
