# kind: silent-other
import torch

torch.manual_seed(0)
a = torch.randn(3, requires_grad=True)
b = torch.randn(3, requires_grad=True)
(a * 2).sum().backward()
b.grad = a.grad  # overwrites
loss = (a.square() + b.square()).sum()
loss.backward()
print("RESULT", a.grad.norm().item(), b.grad.norm().item())
