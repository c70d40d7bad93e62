# kind: detached, tensor: hidden
import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.Linear(4, 4), nn.Linear(4, 1)
hidden = cell(torch.randn(2, 4))
weighted = hidden * hidden.abs()  # saves
loss = head(weighted).sum()
hidden.detach_()  # overwrites
loss.backward()
