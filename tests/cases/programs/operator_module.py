# kind: saved
import functools
import operator

import torch

torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
parts = [w.exp(), w.sin(), w * 2]  # saves
total = functools.reduce(operator.iadd, parts)  # overwrites
total.sum().backward()
