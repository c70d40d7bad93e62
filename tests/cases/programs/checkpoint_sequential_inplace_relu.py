# kind: legal
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4), nn.ReLU(inplace=True))
x = torch.randn(2, 4, requires_grad=True)
checkpoint_sequential(net, 2, x, use_reentrant=False).sum().backward()
print(x.grad.sum().item())
