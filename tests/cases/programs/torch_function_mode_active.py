# kind: saved, tensor: y
import torch
from torch.overrides import TorchFunctionMode


class Count(TorchFunctionMode):
    calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        Count.calls += 1
        return func(*args, **(kwargs or {}))


torch.manual_seed(0)
x = torch.randn(4, requires_grad=True)
with Count():
    y = x.exp()  # saves
    y.mul_(2)  # overwrites
    y[0] = 3.0  # overwrites
    loss = y.sum()
loss.backward()
