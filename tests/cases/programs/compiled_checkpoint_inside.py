# kind: saved, tensor: h
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
a, b = nn.Linear(4, 8), nn.Linear(8, 4)


def inner(h):
    return b(torch.tanh(a(h)))  # saves


@torch.compile(backend="aot_eager")
def net(h):
    return checkpoint(inner, h, use_reentrant=False) * 2


w = torch.rand(4, requires_grad=True)
h = torch.rand(3, 4) * w
out = net(h)
h.mul_(2)  # overwrites
out.sum().backward()
