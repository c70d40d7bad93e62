# kind: leaf, tensor: w
"""The operation is carried out by a mode of the user's; what counts is the line that asked for it."""
import torch
from torch.overrides import TorchFunctionMode


class Quiet(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.add_:
            print("adding")
        return func(*args, **(kwargs or {}))


w = torch.zeros(3, requires_grad=True)
with Quiet():
    w.add_(1)  # overwrites
