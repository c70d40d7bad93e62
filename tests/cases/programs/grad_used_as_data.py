# kind: saved, tensor: x.grad
import torch

torch.manual_seed(0)
x = torch.randn(3, requires_grad=True)
w = torch.randn(3, requires_grad=True)
(x * x).sum().backward()
meta = (w * x.grad).sum()  # saves
(x * 3).sum().backward()  # overwrites
meta.backward()
