# kind: saved
import torch

torch.manual_seed(0)
x = torch.randn(4, 3, requires_grad=True)
scale = torch.rand(3)
h = x.sigmoid()
y = h * 2
y[:2].mul_(scale)  # saves
z = y.tanh()  # saves
scale.add_(1)  # overwrites
z.sub_(1)  # overwrites
z.sum().backward()
