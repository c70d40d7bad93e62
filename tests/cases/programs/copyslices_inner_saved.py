# kind: saved, tensor: w
import torch

torch.manual_seed(0)
x = torch.randn(4, 3, requires_grad=True)
w = torch.rand(3)
y = x * 2
y[:2].mul_(w)  # saves
w.add_(1)  # overwrites
y.sum().backward()
