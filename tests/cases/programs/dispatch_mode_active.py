# kind: saved, tensor: y
import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Names(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


torch.manual_seed(0)
x = torch.randn(4, requires_grad=True)
with Names():
    y = x.sqrt().exp()  # saves
    y += 1  # overwrites
    y.sum().backward()
