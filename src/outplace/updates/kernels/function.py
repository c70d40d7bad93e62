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
Gradients = tuple[Tensor | None, Tensor | None]
"""Of x and of the value."""
MOST_COMPARED = 512
"""Up to so many entries the last for each place is found quicker by comparing all of them with each other."""


class _Saving(torch.autograd.Function):  # type: ignore[misc]
    """What needs the index in backward, and nothing else."""

    looked_up: tuple[int | None, int | None] | None = None

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Any, value: Any, make: Make) -> Tensor:
        if isinstance(index, Tensor):
            ctx.save_for_backward(index)
        else:
            ctx.index = index
        return make(x, index, value)


class _SetNumber(_Saving):
    """The index is a mask or names rows."""

    looked_up = again.SET, None

    @staticmethod
    def gradients(grad: Tensor, of_x: bool, of_value: bool, index: Tensor) -> Gradients:
        return _zeroed(grad, index), None


class _SetTensor(_Saving):
    looked_up = again.SET, again.SPLIT

    @staticmethod
    def gradients(grad: Tensor, of_x: bool, of_value: bool, mask: Tensor) -> Gradients:
        if not of_value:
            return _zeroed(grad, mask), None
        if not mode.seen_only_by_autograd(grad):
            return torch.where(mask, 0.0, grad), torch.where(mask, grad, 0.0)
        if torch.is_grad_enabled() and grad.requires_grad:
            return cast(Gradients, _Split.apply(grad, mask))
        return kernels.split(grad, mask)


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


class _SetPart(_Saving):
    """The index is made of ints and slices."""

    @staticmethod
    def gradients(grad: Tensor, of_x: bool, of_value: bool, index: Any) -> Gradients:
        return _zeroed(grad, index) if of_x else None, grad[index] if of_value else None


class _AddRows(_Saving):
    looked_up = None, again.TAKE

    @staticmethod
    def gradients(grad: Tensor, of_x: bool, of_value: bool, index: Tensor) -> Gradients:
        return grad, kernels.rows_taken(grad, index) if of_value else None


class _SetRows(_Saving):
    """Each row is named once."""

    looked_up = again.SET, again.TAKE

    @staticmethod
    def gradients(grad: Tensor, of_x: bool, of_value: bool, index: Tensor) -> Gradients:
        return _zeroed(grad, index) if of_x else None, kernels.rows_taken(grad, index) if of_value else None


class _SetOwnRows(_Saving):
    """Several rows may be for one place: the last one counts, and it alone has a gradient."""

    looked_up = again.SET, again.SPLIT

    @staticmethod
    def gradients(grad: Tensor, of_x: bool, of_value: bool, index: Tensor) -> Gradients:
        return kernels.split_rows(grad, index) if of_value else (_zeroed(grad, index), None)


class _SetLastRows(_Saving):
    """The same where a launch more counts for nothing: which row is the last one is kept for backward."""

    looked_up = again.SET, again.TAKE

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, value: Tensor, make: Make) -> Tensor:
        last = torch.empty_like(index)
        ctx.save_for_backward(index, last)
        if claims(index.size(0)):
            return make(x, index, value, last, x.new_empty(x.size(0), dtype=torch.int32))
        return make(x, index, value, last)

    @staticmethod
    def gradients(grad: Tensor, of_x: bool, of_value: bool, index: Tensor, last: Tensor) -> Gradients:
        return _zeroed(grad, index) if of_x else None, kernels.rows_taken(grad, index, last) if of_value else None


def _zeroed(grad: Tensor, index: Any) -> Tensor:
    """The gradient of x, where it is kept."""
    known = again.lookup(grad, index, 0.0, again.SET) if grad.is_cuda and not is_compiling() else None
    return updates.at(grad)[index].set(0.0) if known is None else cast(Tensor, known)


def claims(entries: int) -> bool:
    """Is the last entry for each row found by way of an int32 for every row of x, and not by comparing the entries?"""
    return entries > MOST_COMPARED


def _kind(function: Any) -> again.Kind:
    """`apply` goes without its part in Python, which is for torch.func's transforms and takes half of its time.

    Backward, too, goes without the part that finds out whether it is called `vjp`.
    """

    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        of_x, _, of_value, _ = ctx.needs_input_grad
        to_x, to_value = function.gradients(grad, of_x, of_value, *(ctx.saved_tensors or (ctx.index,)))
        return to_x, None, to_value, None

    function.backward = staticmethod(backward)
    if hasattr(function, "_backward_cls"):
        function._backward_cls.apply = backward
    apply = super(torch.autograd.Function, function).apply
    kind = again.Kind(len(again.kinds), apply, function.gradients, function.looked_up)
    again.kinds.append(kind)
    return kind


set_number, set_tensor, set_part, add_rows, set_rows, set_own_rows, set_last_rows = map(
    _kind, (_SetNumber, _SetTensor, _SetPart, _AddRows, _SetRows, _SetOwnRows, _SetLastRows)
)
