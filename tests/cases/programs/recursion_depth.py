# kind: saved
import torch

torch.manual_seed(0)


def descend(t, depth):
    if depth == 0:
        return t
    left = descend(t.sigmoid(), depth - 1)  # saves
    left.mul_(0.9)  # overwrites
    return left


w = torch.randn(3, requires_grad=True)
descend(w, 3).sum().backward()
