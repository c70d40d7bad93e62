# kind: silent-other, tensor: work
import torch
from torch import nn


class Entropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores):
        work = scores.float()
        work -= work.amax(-1, keepdim=True)  # overwrites
        work.exp_()  # overwrites
        p = work / work.sum(-1, keepdim=True)
        ctx.save_for_backward(p)
        return -(p * p.log()).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        (p,) = ctx.saved_tensors
        h = -(p * p.log()).sum(-1, keepdim=True)
        return -p * (p.log() + h) * grad[..., None]


torch.manual_seed(0)
lin = nn.Linear(3, 4)
scores = lin(torch.randn(5, 3))
loss = Entropy.apply(scores).mean() + 0.1 * scores.square().mean()
loss.backward()
print("RESULT", loss.item(), lin.weight.grad.norm().item())
