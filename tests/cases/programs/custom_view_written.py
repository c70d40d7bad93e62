# kind: custom-view
import torch


class Head(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.n = x.shape[0]
        return x[:2]

    @staticmethod
    def backward(ctx, grad):
        full = grad.new_zeros(ctx.n, *grad.shape[1:])
        full[:2] = grad
        return full


x = torch.randn(4, 3, requires_grad=True)
h = Head.apply(x * 1.0)
h += 1  # overwrites
h.sum().backward()
