# kind: saved
import torch
from torch import nn

torch.manual_seed(0)
seen = []
gain = torch.tensor([1.0, 2.0])
x = torch.randn(3, 2, requires_grad=True)
y = x * 1.0
y[0].mul_(gain)  # saves
y.register_hook(lambda g: seen.append(g.shape))
gain += 1  # overwrites
y.sum().backward()
