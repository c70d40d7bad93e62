# kind: legal
from typing import NamedTuple

import torch


class State(NamedTuple):
    h: torch.Tensor
    c: torch.Tensor


def cell(x, state, w):
    gate = torch.sigmoid(x @ w)
    state.c.mul_(gate)
    h = gate * state.c.tanh()
    return State(h, state.c)


torch.manual_seed(0)
w = torch.randn(4, 4, requires_grad=True)
state = State(torch.zeros(2, 4), torch.ones(2, 4))
for _ in range(3):
    state = cell(torch.randn(2, 4), state, w)
state.h.sum().backward()
