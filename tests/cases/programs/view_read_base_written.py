# kind: saved
import torch
from torch import nn

torch.manual_seed(0)
lin = nn.Linear(5, 6)
h = lin(torch.randn(2, 5))
left = h[:, :3]
right = h[:, 3:]
energy = (left * right).sum()  # saves
h.clamp_(min=0)  # overwrites
(energy + h.sum()).backward()
