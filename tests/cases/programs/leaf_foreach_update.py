# kind: leaf
import torch
from torch import nn

net = nn.Linear(3, 1)
net(torch.ones(2, 3)).sum().backward()
params = list(net.parameters())
torch._foreach_add_(params, [p.grad for p in params], alpha=-0.1)  # overwrites
