# kind: saved
from dataclasses import dataclass

import torch


@dataclass
class State:
    position: torch.Tensor
    velocity: torch.Tensor


def force(state, k):
    return -k * state.position  # saves


torch.manual_seed(0)
k = torch.tensor(2.0, requires_grad=True)
state = State(torch.randn(3), torch.zeros(3))
for _ in range(4):
    state.velocity = state.velocity + 0.1 * force(state, k)
    state.position += 0.1 * state.velocity.detach()  # overwrites
state.velocity.sum().backward()
