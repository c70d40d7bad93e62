# kind: silent-other
import torch

torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
v = torch.randn(4, requires_grad=True)
a, b = w * 1.0, v * 1.0
b.register_hook(lambda g: g.data.clamp_(-0.1, 0.1))  # overwrites
((a + b) * 5).sum().backward()
print("RESULT", w.grad.norm().item(), v.grad.norm().item())
