# kind: saved
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Hardtanh(-0.5, 0.5, inplace=True))
net(torch.randn(3, 4)).sum().backward()  # saves, overwrites
