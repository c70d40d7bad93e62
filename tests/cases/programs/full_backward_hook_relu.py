# kind: custom-view
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 1))
grads = []
net[0].register_full_backward_hook(lambda m, gi, go: grads.append(go[0]))
net(torch.randn(2, 3)).sum().backward()  # overwrites
