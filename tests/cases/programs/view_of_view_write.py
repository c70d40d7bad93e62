# kind: saved
import torch

torch.manual_seed(0)
x = torch.randn(4, 6, requires_grad=True)
y = x.sigmoid()  # saves
grid = y.view(4, 3, 2)
corner = grid[:, 0].transpose(0, 1)
corner.mul_(3.0)  # overwrites
y.sum().backward()
