# kind: saved
import torch

torch.manual_seed(0)
x = torch.randn(4, requires_grad=True)
y = (x.exp() * x).sum()
(g,) = torch.autograd.grad(y, x, create_graph=True)
h = g.sigmoid()  # saves
h.mul_(3)  # overwrites
h.sum().backward()
