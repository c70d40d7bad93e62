# kind: saved
import torch


class TrainingError(Exception):
    pass


def step(w):
    y = w.sqrt()  # saves
    y.neg_()  # overwrites
    try:
        y.sum().backward()
    except RuntimeError as error:
        raise TrainingError("step failed") from error


step(torch.rand(3, requires_grad=True))
