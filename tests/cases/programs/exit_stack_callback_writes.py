# kind: saved, tensor: scale
import contextlib

import torch

torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
scale = torch.ones(4)


def restore(value):
    scale.copy_(value)  # overwrites


with contextlib.ExitStack() as stack:
    stack.callback(restore, torch.zeros(4))
    loss = (w * scale).sum()  # saves
loss.backward()
