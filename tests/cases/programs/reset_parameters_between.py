# kind: stepped
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
loss = net(torch.randn(2, 3)).sum()  # saves
for layer in net:
    if hasattr(layer, "reset_parameters"):
        layer.reset_parameters()  # overwrites
loss.backward()
