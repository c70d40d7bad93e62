# kind: saved
import torch

torch.manual_seed(0)
x = torch.randn(4, 3, requires_grad=True)
y = x * 2
y[0].exp_()  # saves
y[1:] += 1  # overwrites
y.sum().backward()
