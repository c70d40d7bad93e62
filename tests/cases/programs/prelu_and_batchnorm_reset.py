# kind: stepped
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.PReLU())
out = net(torch.randn(6, 4))  # saves
nn.init.constant_(net[2].weight, 0.1)  # overwrites
nn.init.ones_(net[1].weight)  # overwrites
out.sum().backward()
