# kind: silent-data
import torch

torch.manual_seed(0)
x = torch.randn(4, requires_grad=True)
y = x.exp()  # saves
scratch = torch.empty(0).set_(y.detach())
z = y * 2
scratch.mul_(3)  # overwrites
z.sum().backward()
print("RESULT", x.grad.norm().item())
