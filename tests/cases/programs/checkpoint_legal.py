# kind: legal
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
stack = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True)) for _ in range(3))
for reentrant in (True, False):
    x = torch.randn(2, 4, requires_grad=True)
    h = x
    for layer in stack:
        h = checkpoint(layer, h, use_reentrant=reentrant)
    h.sum().backward()
    print("RESULT", x.grad.sum().item())
