# kind: saved
import torch
from torch import nn

torch.manual_seed(0)
w = [torch.randn(3, requires_grad=True) for _ in range(3)]
acts = [torch.tanh(p) for p in w]  # saves
torch._foreach_mul_(acts, 0.9)  # overwrites
sum(a.sum() for a in acts).backward()
