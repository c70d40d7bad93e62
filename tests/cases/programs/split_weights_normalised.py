# kind: multi-view
"""Weights of generated layers: parts of one vector, which the loop that hands them out writes."""

import torch
import torch.nn.functional as F
from torch import nn


class HyperNet(nn.Module):
    shapes = [(3, 4), (2, 3)]

    def __init__(self):
        super().__init__()
        sizes = [a * b for a, b in self.shapes]
        self.sizes = sizes
        self.body = nn.Linear(5, sum(sizes))

    def forward(self, context):
        flat = self.body(context)
        weights = []
        for piece, shape in zip(torch.split(flat, self.sizes), self.shapes):
            piece /= piece.norm()  # overwrites
            weights.append(piece.view(shape))
        return weights


torch.manual_seed(0)
hyper = HyperNet()
x = torch.randn(6, 4)
for weight in hyper(torch.randn(5)):
    x = torch.tanh(F.linear(x, weight))
loss = x.pow(2).sum()
loss.backward()
