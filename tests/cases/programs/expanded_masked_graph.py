# kind: expanded, tensor: rows
"""A masked write into an expanded tensor passes with a warning; it is the backward through it that PyTorch refuses."""
import torch

torch.manual_seed(0)
prototype = torch.randn(1, 6, requires_grad=True) * 2
rows = prototype.expand(4, 6)
keep = torch.rand(4, 6) > 0.5
rows[keep] = 0.0  # overwrites
loss = rows.sum()
loss.backward()
