import torch


def swish_(x):
    gate = torch.sigmoid(x)
    y = x * gate  # saves
    x.mul_(gate.detach())  # overwrites
    return y + x
