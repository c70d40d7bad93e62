# kind: stepped
import torch
from torch import nn

torch.manual_seed(0)
norm, fc = nn.LayerNorm(4), nn.Linear(4, 4)
out = norm(fc(torch.randn(2, 4)))  # saves
with torch.no_grad():
    norm.weight.fill_(1.0)  # overwrites
out.square().sum().backward()
