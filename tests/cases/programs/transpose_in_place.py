# kind: saved, tensor: h
import torch

torch.manual_seed(0)
w = torch.randn(3, 4, requires_grad=True)
h = w.exp()  # saves
h.t_()  # overwrites
h.sum().backward()
