"""Autograd for the kernels: what is not made of ATen's operations has to bring its own derivatives.

An engine has `set_number`, `set_tensor` and `split`, for operands of one shape, and that for CUDA has `with_rows`. The
Functions do without `setup_context`, which costs more than they do; under torch.func's transforms ATen does the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from outplace.updates import mode


class Engine(Protocol):
    """The kernels of one kind of device."""

    DTYPES: frozenset[torch.dtype]

    def set_number(self, x: Tensor, mask: Tensor, value: float) -> Tensor:
        """The number where the mask is True, x elsewhere."""

    def set_tensor(self, x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
        """The value where the mask is True, x elsewhere."""

    def split(self, grad: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient outside the mask and inside it, with zeros elsewhere."""


WithRows = Callable[[Tensor, Tensor, Tensor, bool, Tensor | None, bool], Tensor]
"""A copy of a tensor with rows of a value: the tensor, the index, the value, add them?, which count, find these?"""


def applying(function: Any) -> Callable[..., Any]:
    """`function.apply` without its part in Python, which is for torch.func's transforms and takes half of its time."""
    return cast(Callable[..., Any], super(torch.autograd.Function, function).apply)


def masked_set(engine: Engine, x: Tensor, mask: Tensor, value: Any) -> Tensor | None:
    """The value where the mask is True, x elsewhere; None where the kernels do not apply."""
    if x.dtype not in engine.DTYPES or not mode.seen_only_by_autograd(x) or type(mask) is not Tensor:
        return None
    mask = _expanded(mask, x)
    differentiable = torch.is_grad_enabled() and x.requires_grad
    if isinstance(value, Tensor):
        if not mode.seen_only_by_autograd(value):
            return None
        value = _expanded(value, x)
        if differentiable or (value.requires_grad and torch.is_grad_enabled()):
            return cast(Tensor, _set_tensor(engine, x, mask, value))
        return engine.set_tensor(x, mask, value)
    if differentiable:
        return cast(Tensor, _set_number(engine, x, mask, value))
    return engine.set_number(x, mask, value)


class _SetNumber(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, engine: Engine, x: Tensor, mask: Tensor, value: float) -> Tensor:
        ctx.engine = engine
        ctx.save_for_backward(mask)
        return engine.set_number(x, mask, value)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        (grad,) = grads
        if not mode.seen_only_by_autograd(grad):
            return None, torch.where(mask, 0.0, grad), None, None
        if torch.is_grad_enabled() and grad.requires_grad:
            return None, _SetNumber.apply(ctx.engine, grad, mask, 0.0), None, None
        return None, ctx.engine.set_number(grad, mask, 0.0), None, None


class _SetTensor(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, engine: Engine, x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
        ctx.engine = engine
        ctx.save_for_backward(mask)
        return engine.set_tensor(x, mask, value)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        (grad,) = grads
        if not mode.seen_only_by_autograd(grad):
            to_x, to_value = torch.where(mask, 0.0, grad), torch.where(mask, grad, 0.0)
        elif torch.is_grad_enabled() and grad.requires_grad:
            to_x, to_value = _Split.apply(ctx.engine, grad, mask)
        else:
            to_x, to_value = ctx.engine.split(grad, mask)
        return None, to_x, None, to_value


class _Split(torch.autograd.Function):  # type: ignore[misc]
    """What a gradient gives to x (outside the mask) and to the value (inside it)."""

    @staticmethod
    def forward(ctx: Any, engine: Engine, grad: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        ctx.engine = engine
        ctx.save_for_backward(mask)
        return engine.split(grad, mask)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        return None, torch.where(mask, grads[1], grads[0]), None


def with_rows(
    make: WithRows,
    x: Tensor,
    index: Tensor,
    value: Tensor,
    add: bool = False,
    last: Tensor | None = None,
    find_last: bool = False,
) -> Tensor | None:
    """A copy of x with the value's rows at the index, or added there; None where one has gaps.

    `last` says of each row of the value whether it counts, where several are for one row of x; or it is to be found.
    """
    if not (x.is_contiguous() and value.is_contiguous() and index.is_contiguous()):
        return None
    if not (x.requires_grad or value.requires_grad) or not torch.is_grad_enabled():
        return make(x, index, value, add, last, find_last)
    if add:
        return cast(Tensor, _add_rows(x, value, index, make))
    return cast(Tensor, _set_rows(x, value, index, make, last, find_last))


class _AddRows(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Tensor, value: Tensor, index: Tensor, make: WithRows) -> Tensor:
        ctx.save_for_backward(index)
        return make(x, index, value, True, None, False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        return grad, grad[ctx.saved_tensors[0]] if ctx.needs_input_grad[1] else None, None, None


class _SetRows(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, value: Tensor, index: Tensor, make: WithRows, last: Tensor | None, find_last: bool
    ) -> Tensor:
        ctx.save_for_backward(index, last)
        return make(x, index, value, False, last, find_last)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        index, last = ctx.saved_tensors
        (grad,) = grads
        of_x, of_value, *_ = ctx.needs_input_grad
        to_value = grad[index] if of_value else None
        if to_value is not None and last is not None:
            to_value = torch.where(last.reshape(-1, *(1,) * (grad.dim() - 1)), to_value, 0.0)
        return torch.index_fill(grad, 0, index, 0.0) if of_x else None, to_value, None, None, None, None


_set_number, _set_tensor, _add_rows, _set_rows = map(applying, (_SetNumber, _SetTensor, _AddRows, _SetRows))


def _expanded(tensor: Tensor, x: Tensor) -> Tensor:
    return tensor if tensor.shape == x.shape else tensor.expand(x.shape)
