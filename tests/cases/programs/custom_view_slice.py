# kind: custom-view, tensor: window
import torch


class Window(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x[1:]

    @staticmethod
    def backward(ctx, grad):
        return torch.cat([grad.new_zeros(1), grad])


x = torch.ones(4, requires_grad=True) * 2
window = Window.apply(x)
window += 1  # overwrites
