import torch
from torch import nn


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 2)

    def forward(self, s):
        return torch.tanh(self.net(s))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(5, 8)
        self.l2 = nn.Linear(8, 1)

    def forward(self, s, a):
        h = torch.relu(self.l1(torch.cat((s, a), -1)))  # saves
        return self.l2(h)  # saves
