# kind: legal
import torch
from torch.func import grad


def energy(x):
    y = x.sin()
    y = y.clone()
    y[0] = 0.0
    return (y * y).sum()


print("RESULT", grad(energy)(torch.ones(3)).sum().item())
