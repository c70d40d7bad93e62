# kind: saved
import torch


class Gate:
    def __init__(self, width):
        self._level = torch.full((width,), 0.5)

    @property
    def level(self):
        return self._level

    @level.setter
    def level(self, value):
        self._level.fill_(value)  # overwrites


torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
gate, total = Gate(3), 0
for value in (0.1, 0.9):
    total = total + (w * gate.level).sum()  # saves
    gate.level = value
total.backward()
