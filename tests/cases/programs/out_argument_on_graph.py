# kind: out-arg
import torch
from torch import nn

lin = nn.Linear(3, 3)
buffer = torch.empty(2, 3)
x = lin(torch.randn(2, 3))
torch.mul(x, 2.0, out=buffer)  # overwrites
buffer.sum().backward()
