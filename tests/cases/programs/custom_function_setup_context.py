# kind: saved, tensor: y
import torch


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.sin(), x.cos()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx, grad_sine, grad_cosine):
        (cosine,) = ctx.saved_tensors
        return grad_sine * cosine


torch.manual_seed(0)
x = torch.randn(5, requires_grad=True)
sine, y = Sine.apply(x * 2)  # saves
y.neg_()  # overwrites
(sine + y.detach()).sum().backward()
