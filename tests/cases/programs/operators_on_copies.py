# kind: legal
"""Operators whose writes hurt nobody: on a copy, on what nobody has saved, and inside their own body."""
import torch


@torch.library.custom_op("outplace_cases::halve_", mutates_args={"x"})
def halve_(x: torch.Tensor) -> None:
    x.mul_(0.5)


@torch.library.custom_op("outplace_cases::squashed", mutates_args=())
def squashed(x: torch.Tensor) -> torch.Tensor:
    y = x.exp()
    y.mul_(2)
    return y


def setup(ctx, inputs, output):
    ctx.save_for_backward(output)


squashed.register_autograd(lambda ctx, grad: grad * ctx.saved_tensors[0], setup_context=setup)

torch.manual_seed(0)
w = torch.randn(4, requires_grad=True)
y = w.sigmoid()
copy = y.detach().clone()
halve_(copy)
shifted = y + 1
halve_(shifted)
halve_(w.detach().clone())
(squashed(y) + shifted).sum().backward()
