# kind: saved, tensor: ctx.stats
import torch


class Track(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, stats):
        ctx.stats = stats
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        ctx.stats.add_(grad.abs())  # overwrites
        return grad, None


torch.manual_seed(0)
w = torch.rand(4, requires_grad=True)
stats = torch.ones(4)
scaled = w / stats  # saves
Track.apply(scaled, stats).sum().backward()
