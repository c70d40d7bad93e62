# kind: legal
"""A mode is told of what the program does, and of nothing that outplace does beside it."""
import torch
from torch.overrides import TorchFunctionMode


class Listen(TorchFunctionMode):
    heard = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        Listen.heard.append(func.__name__)
        return func(*args, **(kwargs or {}))


with Listen():
    x = torch.ones(3)
    x += 1
    x[0] = 2
    x.data = torch.zeros(3)
    torch.relu_(x)
    z = torch.zeros(2, dtype=torch.complex64)
    z.real = torch.ones(2)
    z.imag += 1
assert Listen.heard == ["ones", "add_", "__setitem__", "zeros", "__set__", "relu_", "zeros", "ones", "__get__", "add_"], (
    Listen.heard
)
