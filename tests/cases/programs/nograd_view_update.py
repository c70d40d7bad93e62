# kind: nograd-view, tensor: row
import torch
from torch import nn

emb = nn.Linear(4, 4, bias=False)
base = emb.weight * 1.0
with torch.no_grad():
    row = base[0]
row.add_(1.0)  # overwrites
base.sum().backward()
