# kind: saved, tensor: h
import torch
from torch import nn

torch.manual_seed(0)
net = torch.compile(nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 4)), backend="aot_eager")
w = torch.rand(4, requires_grad=True)
h = (torch.randn(3, 4) * w).exp()  # saves
net(h).sum().backward()  # overwrites
