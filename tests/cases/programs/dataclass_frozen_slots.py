# kind: saved, tensor: self.carry
from dataclasses import dataclass, field

import torch


@dataclass(slots=True)
class Carry:
    carry: torch.Tensor
    log: list = field(default_factory=list)

    def step(self, x):
        self.log.append((self.carry * x).sum())  # saves
        self.carry.lerp_(x, 0.5)  # overwrites


torch.manual_seed(0)
carry = Carry(torch.zeros(3))
w = torch.randn(3, requires_grad=True)
for _ in range(3):
    carry.step(w * 2)
sum(carry.log).backward()
