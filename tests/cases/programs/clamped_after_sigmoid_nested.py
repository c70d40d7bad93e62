# kind: saved
import torch
from torch import nn


def squashed(x):
    return torch.clamp_(x.sigmoid_(), min=1e-4, max=1 - 1e-4)  # overwrites, saves


torch.manual_seed(0)
head = nn.Conv2d(4, 2, 1)
heat = squashed(head(torch.randn(2, 4, 5, 5) * 5))
loss = -torch.log(heat).mean()
loss.backward()
print("RESULT", head.weight.grad.norm().item())
