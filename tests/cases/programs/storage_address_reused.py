# kind: saved, tensor: h
"""Temporaries come and go at the same address: only the writes to the tensor that was saved count."""
import torch

torch.manual_seed(0)
w = torch.randn(64, requires_grad=True)
losses = []
for step in range(20):
    scratch = torch.ones(64)
    scratch.mul_(step)
    scratch.add_(1)
    del scratch
    h = w * 2
    losses.append(h.square().sum())  # saves
    if step == 19:
        h.add_(1)  # overwrites
losses[-1].backward()
