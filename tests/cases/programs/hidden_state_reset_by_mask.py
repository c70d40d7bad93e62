# kind: saved, tensor: hidden
import torch
from torch import nn

torch.manual_seed(0)
cell, value = nn.GRUCell(3, 4), nn.Linear(4, 1)
hidden = torch.zeros(5, 4)
losses = []
for t in range(3):
    hidden = cell(torch.randn(5, 3), hidden)
    losses.append(value(hidden).mean())  # saves
    done = torch.rand(5) < 0.9
    hidden[done] = 0.0  # overwrites
torch.stack(losses).sum().backward()
