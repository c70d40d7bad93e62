# kind: multi-view
import torch
from torch import nn

torch.manual_seed(0)
proj = nn.Linear(4, 8)
x = torch.randn(3, 4)
value, gate = proj(x).chunk(2, dim=-1)
gate.sigmoid_()  # overwrites
(value * gate).sum().backward()
