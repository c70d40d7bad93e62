# kind: saved, tensor: h
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.fc = nn.Linear(d, d)

    def forward(self, x):
        h = torch.sigmoid(self.fc(x))  # saves
        h += x  # overwrites
        return h


torch.manual_seed(0)
stack = nn.ModuleList(Layer(4) for _ in range(3))
x = torch.randn(2, 4, requires_grad=True)
for layer in stack:
    x = checkpoint(layer, x, use_reentrant=True)
x.sum().backward()
