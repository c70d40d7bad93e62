# kind: detached
import torch

torch.manual_seed(0)
x = torch.randn(4, requires_grad=True)
y = x * 2
z = y * y  # saves
y.detach_()  # overwrites
z.sum().backward()
