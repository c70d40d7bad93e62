# kind: legal
import torch


class ScaleInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.k = k
        ctx.mark_dirty(x)
        x.mul_(k)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.k, None


w = torch.ones(3, requires_grad=True)
y = w + 1
y = ScaleInPlace.apply(y, 4.0)
y.sum().backward()
print("RESULT", w.grad.sum().item())
