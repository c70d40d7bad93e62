import torch
from torch import nn

from ..ops import damp


class Core(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        hidden = torch.sigmoid(self.fc(x))  # saves
        damp(hidden)
        return hidden
