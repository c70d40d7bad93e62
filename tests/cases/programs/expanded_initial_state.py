# kind: expanded, tensor: state, until torch 2.13
import torch
from torch import nn

h0 = nn.Parameter(torch.zeros(1, 4))
state = h0.expand(3, -1)
with torch.no_grad():
    state[:, 0] = 1.0  # overwrites
