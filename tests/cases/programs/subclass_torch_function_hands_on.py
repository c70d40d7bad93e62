# kind: saved, tensor: angle
"""Every operation on a subclass passes through its own __torch_function__: the lines that count are its users'."""
import torch


class Unit(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result


torch.manual_seed(0)
angle = torch.randn(4, requires_grad=True).mul(2).as_subclass(Unit)
wave = torch.sin(angle) * angle  # saves
angle[0] = 0.0  # overwrites
angle += 1.0  # overwrites
wave.sum().backward()
