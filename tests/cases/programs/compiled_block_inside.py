# kind: saved, tensor: a
import torch
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        h = self.fc(x)
        a = torch.sigmoid(h)  # saves
        a += x  # overwrites
        return a * 2


net = torch.compile(nn.Sequential(Block(), Block()), backend="eager")
net(torch.rand(2, 4)).sum().backward()
