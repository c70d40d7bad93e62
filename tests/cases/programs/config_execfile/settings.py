import torch


def objective(x, w):
    h = (x @ w).exp()  # saves
    h += 1.0  # overwrites
    return h.log().sum()
