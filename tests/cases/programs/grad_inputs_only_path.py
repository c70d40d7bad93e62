# kind: saved, tensor: left
import torch

torch.manual_seed(0)
a = torch.randn(3, requires_grad=True)
b = torch.randn(4, requires_grad=True)
left = a.exp()  # saves
right = b.sigmoid()
loss = left.sum() + right.sum()
right.mul_(2)
left.mul_(2)  # overwrites
(ga,) = torch.autograd.grad(loss, [a])
