# kind: transform, tensor: history
import torch

history = torch.zeros(3)


def loss(w):
    history.add_(w)  # overwrites
    return (w * history).sum()


torch.func.grad(loss)(torch.ones(3))
