"""In-place methods that change a shape and no value: `unsqueeze_` in the forward or backward of a Function."""

from __future__ import annotations

import pytest
import torch

import outplace


class Reshapes(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        rows = x.view(3, 1)
        rows.squeeze_(-1)
        return rows * 2

    @staticmethod
    def backward(ctx, grad):
        column = grad.unsqueeze(-1)
        column.unsqueeze_(-1)
        return column.squeeze() * 2


class Scales(Reshapes):
    @staticmethod
    def backward(ctx, grad):
        column = grad.unsqueeze(-1)
        column.mul_(2)
        return column.squeeze()


def gradients(function):
    """Of two branches that get one gradient tensor."""
    x, u = torch.tensor([1.0, 2.0, 3.0], requires_grad=True), torch.ones(3, requires_grad=True)
    with outplace.watch() as watched:
        a, b = u * 1, function.apply(x * 1)
        ((a + b) * torch.ones(3)).sum().backward()
    return x.grad.tolist(), u.grad.tolist(), [one.code for one in watched.diagnoses]


@pytest.mark.parametrize(
    ("function", "of_u", "told"), [(Reshapes, [1.0, 1.0, 1.0], []), (Scales, [2.0, 2.0, 2.0], ["OUT305"])]
)
def test_only_a_changed_value_is_told_of(function, of_u, told):
    assert gradients(function) == ([2.0, 2.0, 2.0], of_u, told)
