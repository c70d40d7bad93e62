# kind: saved, tensor: y
import torch

torch.manual_seed(0)
x = torch.randn(4, requires_grad=True); y = x.exp(); z = y.sum()  # saves
if z > -1: y.sub_(1.0)  # overwrites
z = y.sum(); z.backward()
