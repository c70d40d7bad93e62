# kind: saved
import torch


class ClampInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, low):
        ctx.save_for_backward(x > low)
        ctx.mark_dirty(x)
        return x.clamp_(min=low)  # overwrites

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return grad * mask, None


torch.manual_seed(0)
w = torch.randn(5, requires_grad=True)
y = w.exp()  # saves
z = ClampInPlace.apply(y, 0.5)
z.sum().backward()
