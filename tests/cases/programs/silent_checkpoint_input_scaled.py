# kind: silent-data
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
block = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
x = torch.randn(2, 3)
h = checkpoint(block, x, use_reentrant=False)  # saves
loss = h.square().sum()
x.data.mul_(0.5)  # overwrites
loss.backward()
print("RESULT", block[0].weight.grad.norm().item())
