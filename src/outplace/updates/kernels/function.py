"""Autograd for the kernels: what is not made of ATen's operations has to bring its own derivatives.

The Functions do without `setup_context`, which costs more than they do; under torch.func's transforms ATen does the
work. What an update gives to the gradient of x is an update itself, of the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from torch.compiler import is_compiling

import outplace.updates as updates
from outplace.updates import kernels, mode
from outplace.updates.kernels import again

Make = Callable[..., Tensor]
"""An update without gradients, of x, the index and the value."""
MOST_COMPARED = 512
"""Up to so many entries the last for each place is found quicker by comparing all of them with each other."""


def applying(function: Any) -> Callable[..., Any]:
    """`function.apply` without its part in Python, which is for torch.func's transforms and takes half of its time.

    Backward, too, goes without the part that finds out whether it is called `vjp`.
    """
    if hasattr(function, "_backward_cls"):
        function._backward_cls.apply = again.backward(getattr(function, "remembered", None), function.backward)
    return cast(Callable[..., Any], super(torch.autograd.Function, function).apply)


class _Saving(torch.autograd.Function):  # type: ignore[misc]
    """What needs the index in backward, and nothing else."""

    remembered: int | None = None
    """What is looked up for its gradients before `backward` is called, which is to find out how to make them."""
    forward = staticmethod(again.forward)


class _SetNumber(_Saving):
    """The index is a mask or names rows."""

    remembered = again.SET

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _zeroed(grads[0], ctx.saved_tensors[0]), None, None, None


class _SetTensor(_Saving):
    remembered = again.SPLIT

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (mask,) = grads, ctx.saved_tensors
        if not ctx.needs_input_grad[2]:
            return _zeroed(grad, mask), None, None, None
        if not mode.seen_only_by_autograd(grad):
            to_x, to_value = torch.where(mask, 0.0, grad), torch.where(mask, grad, 0.0)
        elif torch.is_grad_enabled() and grad.requires_grad:
            to_x, to_value = _Split.apply(grad, mask)
        else:
            to_x, to_value = kernels.split(grad, mask)
        return to_x, None, to_value, None


class _Split(torch.autograd.Function):  # type: ignore[misc]
    """What a gradient gives to x (outside the mask) and to the value (inside it)."""

    @staticmethod
    def forward(ctx: Any, grad: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(mask)
        return kernels.split(grad, mask)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        return torch.where(mask, grads[1], grads[0]), None


class _SetPart(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Any, value: Any, make: Make) -> Tensor:
        ctx.index = index
        return make(x, index, value)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), index = grads, ctx.index
        of_x, _, of_value, _ = ctx.needs_input_grad
        return _zeroed(grad, index) if of_x else None, None, grad[index] if of_value else None, None


class _AddRows(_Saving):
    remembered = again.TAKE

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        if not ctx.needs_input_grad[2]:
            return grad, None, None, None
        (index,) = ctx.saved_tensors
        return grad, None, kernels.rows_taken(grad, index), None


class _SetRows(_Saving):
    """Each row is named once."""

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (index,) = grads, ctx.saved_tensors
        of_x, _, of_value, _ = ctx.needs_input_grad
        to_value = kernels.rows_taken(grad, index) if of_value else None
        return _zeroed(grad, index) if of_x else None, None, to_value, None


class _SetOwnRows(_Saving):
    """Several rows may be for one place: the last one counts, and it alone has a gradient."""

    remembered = again.SPLIT

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (index,) = grads, ctx.saved_tensors
        if not ctx.needs_input_grad[2]:
            return _zeroed(grad, index), None, None, None
        to_x, to_value = kernels.split_rows(grad, index)
        return to_x, None, to_value, None


class _SetLastRows(torch.autograd.Function):  # type: ignore[misc]
    """The same where a launch more counts for nothing: which row is the last one is kept for backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, value: Tensor, make: Make) -> Tensor:
        last = torch.empty_like(index)
        ctx.save_for_backward(index, last)
        if claims(index.size(0)):
            return make(x, index, value, last, x.new_empty(x.size(0), dtype=torch.int32))
        return make(x, index, value, last)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (index, last) = grads, ctx.saved_tensors
        of_x, _, of_value, _ = ctx.needs_input_grad
        to_value = kernels.rows_taken(grad, index, last) if of_value else None
        return _zeroed(grad, index) if of_x else None, None, to_value, None


def _zeroed(grad: Tensor, index: Any) -> Tensor:
    """The gradient of x, where it is kept."""
    known = again.lookup(grad, index, 0.0, again.SET) if grad.is_cuda and not is_compiling() else None
    return updates.at(grad)[index].set(0.0) if known is None else cast(Tensor, known)


def claims(entries: int) -> bool:
    """Is the last entry for each row found by way of an int32 for every row of x, and not by comparing the entries?"""
    return entries > MOST_COMPARED


set_number, set_tensor, set_part, add_rows, set_rows, set_own_rows, set_last_rows = map(
    applying, (_SetNumber, _SetTensor, _SetPart, _AddRows, _SetRows, _SetOwnRows, _SetLastRows)
)
