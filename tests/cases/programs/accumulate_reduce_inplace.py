# kind: saved
import functools

import torch

torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
parts = [torch.exp(w * k) for k in range(3)]  # saves
total = functools.reduce(torch.Tensor.add_, parts)  # overwrites
total.sum().backward()
