# kind: saved
import torch
from torch import nn

torch.manual_seed(0)
heads = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
x = torch.randn(2, 3)
outs = [torch.sigmoid(head(x)) for head in heads]  # saves
outs = [o.mul_(i) for i, o in enumerate(outs)]  # overwrites
sum(outs).sum().backward()
