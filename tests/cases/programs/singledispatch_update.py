# kind: saved, tensor: target
from functools import singledispatch

import torch


@singledispatch
def soften(target, amount):
    raise TypeError


@soften.register
def _(target: torch.Tensor, amount):
    target.mul_(1 - amount).add_(amount / target.numel())  # overwrites


@soften.register
def _(target: list, amount):
    for part in target:
        soften(part, amount)


torch.manual_seed(0)
logits = torch.randn(2, 3, requires_grad=True)
labels = [torch.eye(3)[0], torch.eye(3)[1]]
loss = -sum((row.log_softmax(0) * label).sum() for row, label in zip(logits, labels))  # saves
soften(labels, 0.1)
loss.backward()
