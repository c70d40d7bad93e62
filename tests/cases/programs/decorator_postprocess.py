# kind: saved
import functools

import torch
from torch import nn


def normalised(function):
    @functools.wraps(function)
    def wrapper(*args):
        out = function(*args)
        out /= out.detach().amax()  # overwrites
        return out

    return wrapper


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    @normalised
    def forward(self, x):
        return torch.softmax(self.fc(x), -1)  # saves


torch.manual_seed(0)
Model()(torch.randn(2, 3)).pow(2).sum().backward()
