# kind: multi-view, tensor: row
import torch
from torch import nn

torch.manual_seed(0)
features = nn.Linear(3, 4)(torch.randn(5, 3))
for row in features:
    row /= row.detach().norm()  # overwrites
features.sum().backward()
