# kind: saved
"""A field of a record that `_replace` hands on from step to step."""

from typing import NamedTuple

import torch
from torch import nn


class Belief(NamedTuple):
    mean: torch.Tensor
    logvar: torch.Tensor


class Filter(nn.Module):
    def __init__(self):
        super().__init__()
        self.predict, self.gain = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, belief, observation):
        mean = torch.tanh(self.predict(belief.mean))
        innovation = observation - mean
        mean = mean + torch.sigmoid(self.gain(innovation)) * innovation
        return belief._replace(mean=mean)


def evidence(belief, observation):
    variance = belief.logvar.exp()
    return ((observation - belief.mean) ** 2 / variance + belief.logvar**2).sum()  # saves


torch.manual_seed(0)
filt = Filter()
noise = nn.Parameter(torch.zeros(2))
belief, loss = Belief(torch.zeros(2), noise * 1.0), 0.0
for observation in torch.randn(4, 2):
    belief = filt(belief, observation)
    loss = loss + evidence(belief, observation)
    belief.logvar.mul_(0.9).sub_(0.1)  # overwrites
loss.backward()
