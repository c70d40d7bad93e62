# kind: saved, tensor: y
"""A write that PyTorch refuses is caught; another one, later, is what breaks the gradient."""
import torch

torch.manual_seed(0)
x = torch.randn(4, requires_grad=True)
y = x.exp()  # saves
try:
    y.add_(torch.ones(3))
except RuntimeError:
    y.add_(1.0)  # overwrites
y.sum().backward()
