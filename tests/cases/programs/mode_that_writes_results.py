# kind: saved
"""A mode that damps what each exp returns: there the line inside the mode is the one that writes."""
import torch
from torch.overrides import TorchFunctionMode


class Damp(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.exp:
            result.mul_(0.5)  # overwrites
        return result


torch.manual_seed(0)
x = torch.randn(4, requires_grad=True)
with Damp():
    y = torch.exp(x)  # saves
y.sum().backward()
