# kind: saved, tensor: slope
import torch

torch.manual_seed(0)
x = torch.randn(4, requires_grad=True)
y = x.pow(3).sum()
(slope,) = torch.autograd.grad(y, x, create_graph=True)
penalty = slope.square().sum()  # saves
slope.clamp_(-1, 1)  # overwrites
penalty.backward()
