# kind: stepped
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

torch.manual_seed(0)
layer = weight_norm(nn.Linear(5, 5))
optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
x = torch.randn(3, 5)
first = layer(x)
second = layer(x)  # saves
first.pow(2).mean().backward()
optimizer.step()  # overwrites
second.abs().mean().backward()
