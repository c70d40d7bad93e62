# kind: saved, tensor: y
import torch

torch.manual_seed(0)
x = torch.randn(4, requires_grad=True)
y = x.exp()  # saves
update = y.mul_ if hasattr(y, "mul_") else None
fallback = getattr(y, "div_", None)
y.sub_(1.0)  # overwrites
y.sum().backward()
