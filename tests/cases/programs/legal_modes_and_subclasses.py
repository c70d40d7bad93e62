# kind: legal
import torch
from torch.overrides import TorchFunctionMode


class Log(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result


class Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


torch.manual_seed(0)
x = torch.randn(4, requires_grad=True)
with Log():
    y = x * 2
    y.add_(1)
    y[0] = 0.5
tagged = (x + 1).as_subclass(Tagged)
tagged += 1
tagged[1] = 2.0
(y.sum() + tagged.sum()).backward()
print(float(x.grad.sum()))
