# kind: saved
import torch

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
y = w.exp()  # saves
y.mul_(2).add_(1).clamp_(max=5)  # overwrites
y.sum().backward()
