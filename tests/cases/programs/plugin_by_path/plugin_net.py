import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        features = torch.tanh(self.fc(x))  # saves
        scale = features.detach().abs().max()
        features /= scale  # overwrites
        return features
