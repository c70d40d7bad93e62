# kind: saved
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)
        self.drop = nn.Dropout(0.5, inplace=True)

    def forward(self, x):
        gate = torch.sigmoid(self.fc(x))  # saves
        return self.drop(gate) * x  # overwrites


torch.manual_seed(0)
Head()(torch.randn(2, 6)).sum().backward()
