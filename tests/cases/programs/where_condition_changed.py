# kind: saved, tensor: keep
import torch

torch.manual_seed(0)
x = torch.randn(5, requires_grad=True)
keep = x.detach() > 0
y = torch.where(keep, x, x * 0.1)  # saves
keep[0] = ~keep[0]  # overwrites
y.sum().backward()
