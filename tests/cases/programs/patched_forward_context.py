# kind: saved
"""A forward that is put in the place of the module's own, for the time of a block."""

from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def damped(module, factor):
    original = module.forward

    def forward(x):
        out = original(x)
        out.mul_(factor)  # overwrites
        return out

    module.forward = forward
    try:
        yield module
    finally:
        module.forward = original


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x):
        return torch.sigmoid(self.lin(x))  # saves


torch.manual_seed(0)
gate = Gate()
with damped(gate, 0.5):
    loss = gate(torch.randn(4, 3)).pow(2).sum()
loss.backward()
