# kind: saved
import torch

torch.manual_seed(0)
x = torch.randn(5, requires_grad=True)
low, high = torch.full((5,), -1.0), torch.full((5,), 1.0)
y = torch.clamp(x * 2, low, high)  # saves
high.mul_(0.5)  # overwrites
low.mul_(0.5)  # overwrites
y.sum().backward()
