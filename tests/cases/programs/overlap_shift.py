# kind: overlap
import torch

x = torch.arange(6.0)
x[1:] += x[:-1]  # overwrites
