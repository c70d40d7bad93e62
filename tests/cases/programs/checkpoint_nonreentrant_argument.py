# kind: saved
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
stem, block = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh())
x = stem(torch.randn(2, 4))
y = checkpoint(block, x, use_reentrant=False)  # saves
x.mul_(2)  # overwrites
(y.sum() + x.sum()).backward()
