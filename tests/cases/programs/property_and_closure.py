# kind: saved
import torch


class Field:
    def __init__(self, n):
        self.raw = torch.randn(n, requires_grad=True)
        self._cache = None

    @property
    def positive(self):
        if self._cache is None:
            self._cache = self.raw.exp()  # saves
        return self._cache


def make_shifter(amount):
    def shift(t):
        t.sub_(amount)  # overwrites
        return t

    return shift


torch.manual_seed(0)
field = Field(4)
shift = make_shifter(0.5)
shift(field.positive)
field.positive.sum().backward()
