# kind: legal
import torch
from torch import nn

torch.manual_seed(0)


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        ctx.save_for_backward(x)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        gradient = gradient.clone()
        gradient[x < 0] = 0
        return gradient * -ctx.scale, None


def scaled(module, grad_input, grad_output):
    return tuple(None if one is None else one * 0.5 for one in grad_input)


def halve(parameter):
    parameter.grad.mul_(0.5)


one, two = nn.Linear(4, 4), nn.Linear(4, 4)
two.register_full_backward_hook(scaled)
one.weight.register_hook(lambda gradient: gradient.clamp_(-1, 1))
one.weight.register_post_accumulate_grad_hook(halve)
scale = torch.tensor(0.5)
for _ in range(3):
    x = torch.randn(5, 4, requires_grad=True)
    h = one(x)
    h.register_hook(lambda gradient: gradient * 2)
    loss = (h + two(x) + Reversed.apply(x, scale)).square().mean()
    loss.backward()
    scale.mul_(0.9)
