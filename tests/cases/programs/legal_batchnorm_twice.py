# kind: legal
import torch
from torch import nn

torch.manual_seed(0)
bn = nn.BatchNorm1d(3)
x = torch.randn(4, 3, requires_grad=True)
loss = bn(x).pow(2).sum() + bn(x * 2).pow(3).sum()
loss.backward()
print("RESULT", x.grad.sum().item())
