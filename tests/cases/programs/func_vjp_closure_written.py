# kind: saved, tensor: h
import torch
from torch.func import vjp


def model(x):
    h = x.sin()
    y = h * h  # saves
    h.add_(1.0)  # overwrites
    return y.sum()


torch.manual_seed(0)
value, pull = vjp(model, torch.randn(5))
print(pull(torch.ones(())))
