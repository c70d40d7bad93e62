"""Gradients of the updates that are not made of ATen's differentiable operations.

None of these Functions runs under torch.func's transforms, so they need no `setup_context`. The gradient of x is an
update, too: the incoming gradient with zeros at the index.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

import outplace.updates as updates
from outplace.updates import cpu_masks, cuda_kernels, mode

Make = Callable[..., Tensor]
"""An update without gradients, of x, the index and the value."""
Gradients = tuple[Tensor | None, ...]


def records(x: Tensor, value: Any) -> bool:
    """Does autograd record an update of x by the value, a number or a tensor?"""
    return torch.is_grad_enabled() and (x.requires_grad or (isinstance(value, Tensor) and value.requires_grad))


def set_mask(make: Make, x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`make(x, mask, value)`, recorded if a gradient is wanted. A tensor has x's shape."""
    if not records(x, value):
        return make(x, mask, value)
    function = _SetTensor if isinstance(value, Tensor) else _SetNumber
    return cast(Tensor, function.apply(x, mask, value, make))


def set_part(make: Make, x: Tensor, part: Any, value: Any) -> Tensor:
    """`make(x, part, value)`, recorded if a gradient is wanted. A tensor has the part's shape."""
    return cast(Tensor, _SetPart.apply(x, part, value, make)) if records(x, value) else make(x, part, value)


class _SetNumber(torch.autograd.Function):  # type: ignore[misc]
    """A number under a mask."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, value: float, make: Make) -> Tensor:
        ctx.save_for_backward(mask)
        return make(x, mask, value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        return updates.at(grad)[ctx.saved_tensors[0]].set(0.0), None, None, None


class _SetTensor(torch.autograd.Function):  # type: ignore[misc]
    """A tensor under a mask."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, value: Tensor, make: Make) -> Tensor:
        ctx.save_for_backward(mask)
        return make(x, mask, value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        (mask,) = ctx.saved_tensors
        if not ctx.needs_input_grad[2]:
            return updates.at(grad)[mask].set(0.0), None, None, None
        to_x, to_value = _Split.apply(grad, mask) if records(grad, None) else split(grad, mask)
        return to_x, None, to_value, None


class _Split(torch.autograd.Function):  # type: ignore[misc]
    """What a gradient gives to x, outside the mask, and to the value, inside it."""

    @staticmethod
    def forward(ctx: Any, grad: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(mask)
        return split(grad, mask)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Gradients:
        return torch.where(ctx.saved_tensors[0], grads[1], grads[0]), None


class _SetPart(torch.autograd.Function):  # type: ignore[misc]
    """A number or a tensor at one int or slice of one dimension."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, part: Any, value: Any, make: Make) -> Tensor:
        ctx.index = part.as_index
        return make(x, part, value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        wants_x, _, wants_value, _ = ctx.needs_input_grad
        to_x = updates.at(grad)[ctx.index].set(0.0) if wants_x else None
        return to_x, None, grad[ctx.index] if wants_value else None, None


def split(grad: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient outside the mask and inside it, with zeros elsewhere."""
    if mode.seen_only_by_autograd(grad):
        if grad.is_cpu and grad.dtype in cpu_masks.DTYPES:
            return cpu_masks.split(grad, mask.expand(grad.shape))
        if cuda_kernels.pay(grad, cuda_kernels.BYTES) and cuda_kernels.walks(grad, mask):
            return cuda_kernels.split(grad, mask)
    return torch.where(mask, 0.0, grad), torch.where(mask, grad, 0.0)
