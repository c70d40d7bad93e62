# kind: saved
"""A module rebuilt by torch.fx runs code that was made at run time: what counts is the line that calls it."""
import torch
from torch import fx, nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        h = torch.sigmoid(self.fc(x))
        h.mul_(2)
        return h


torch.manual_seed(0)
traced = fx.symbolic_trace(Net())
loss = traced(torch.randn(2, 3)).sum()  # saves, overwrites
loss.backward()
