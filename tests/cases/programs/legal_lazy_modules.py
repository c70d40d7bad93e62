# kind: legal
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.LazyConv2d(3, 3), nn.LazyBatchNorm2d(), nn.ReLU(inplace=True), nn.Flatten(), nn.LazyLinear(2))
loss = net(torch.randn(2, 1, 5, 5)).sum()
loss.backward()
print(sum(p.grad.sum().item() for p in net.parameters()))
