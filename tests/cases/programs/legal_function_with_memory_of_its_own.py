# kind: legal
import torch
from torch import nn


class Entropy(torch.autograd.Function):
    """Its workspace is a copy, and what it overwrites of its own is read by nobody else."""

    @staticmethod
    def forward(ctx, scores, twice):
        work = twice.clone()
        work -= work.amax(-1, keepdim=True)
        work.exp_()
        scores.clamp_(-3, 3)
        ctx.mark_dirty(scores)
        return scores, work / work.sum(-1, keepdim=True)

    @staticmethod
    def backward(ctx, grad, of_work):
        return grad, None


torch.manual_seed(0)
lin = nn.Linear(3, 4)
for _ in range(3):
    scores = lin(torch.randn(5, 3))
    scores, work = Entropy.apply(scores + 0, scores)
    loss = scores.exp().mean() + work.mean() + scores.square().mean()
    loss.backward()
