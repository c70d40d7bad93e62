# kind: legal
import torch

torch.manual_seed(0)
a = torch.randn(3, requires_grad=True)
b = torch.randn(3, requires_grad=True)
left = a.exp()
right = b.sigmoid()
loss = left.sum() + right.sum()
right.mul_(2)
(ga,) = torch.autograd.grad(loss, [a], retain_graph=True)
print("RESULT", ga.sum().item())
