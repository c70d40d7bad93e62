# kind: saved, tensor: y
import torch
from torch import nn

torch.manual_seed(0)
net = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Sigmoid()), backend="aot_eager")
y = net(torch.rand(3, 4))  # saves
y.mul_(2)  # overwrites
y.sum().backward()
