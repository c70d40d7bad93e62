# kind: saved, tensor: gate
import torch
from torch.autograd.function import once_differentiable


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gate):
        ctx.save_for_backward(gate)
        return x * gate

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0], None


def apply_gate(x, gate):
    return Gate.apply(x, gate)  # saves


torch.manual_seed(0)
x = torch.randn(4, requires_grad=True)
gate = torch.rand(4)
total = 0
for _ in range(2):
    total = total + apply_gate(x, gate).sum()
    gate.bernoulli_(0.5)  # overwrites
total.backward()
