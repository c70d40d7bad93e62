# kind: saved, tensor: y
import torch

torch.manual_seed(0)


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y


@torch.compile(backend="aot_eager")
def f(x, w):
    h = x * w
    return Exp.apply(h)  # saves


w = torch.rand(4, requires_grad=True)
y = f(torch.rand(4), w)
y += 1  # overwrites
y.sum().backward()
