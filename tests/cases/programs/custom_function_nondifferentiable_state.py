# kind: saved, tensor: code
import torch


class Quantise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, step):
        code = torch.round(x / step)
        ctx.save_for_backward(x, code)
        return code * step

    @staticmethod
    def backward(ctx, grad):
        x, code = ctx.saved_tensors
        return grad * (code.abs() < 4), (grad * code).sum()


torch.manual_seed(0)
x = torch.randn(6, requires_grad=True)
code = x * 3
y = Quantise.apply(code, torch.tensor(0.5))  # saves
code.add_(1)  # overwrites
y.sum().backward()
