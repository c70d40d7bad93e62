# kind: leaf
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Dropout(0.5, inplace=True), nn.Linear(3, 1))
x = torch.randn(2, 3, requires_grad=True)
net(x).sum().backward()  # overwrites
