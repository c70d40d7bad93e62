# kind: saved
import torch
from torch.func import grad


def energy(x):
    y = x.exp()  # saves
    y.add_(1)  # overwrites
    return y.sum()


print(grad(energy)(torch.ones(3)))
