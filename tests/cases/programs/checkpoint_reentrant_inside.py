# kind: saved, tensor: h
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

fc = nn.Linear(4, 4)


def block(x):
    h = fc(x).exp()  # saves
    h += 1  # overwrites
    return h


torch.manual_seed(0)
x = torch.randn(2, 4, requires_grad=True)
checkpoint(block, x, use_reentrant=True).sum().backward()
