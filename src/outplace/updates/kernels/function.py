"""Autograd for the kernels: what is not made of ATen's operations has to bring its own derivatives.

An engine has `set_number`, `set_tensor` and `split`, for operands of one shape, and that for CUDA has `put_rows`. The
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


PutRows = Callable[[Tensor, Tensor, Tensor, bool, Tensor | None], None]
"""Writes rows of a value to rows of a tensor, in place: the tensor, the index, the value, add them?, which count."""


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
            return cast(Tensor, _SetTensor.apply(engine, x, mask, value))
        return engine.set_tensor(x, mask, value)
    if differentiable:
        return cast(Tensor, _SetNumber.apply(engine, x, mask, value))
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
    x: Tensor, index: Tensor, value: Tensor, put: PutRows, add: bool = False, last: Tensor | None = None
) -> Tensor | None:
    """A copy of x with the value's rows at the index, or added there; None where one has gaps.

    `last` says of each row of the value whether it counts, where several are for one row of x.
    """
    if not (x.is_contiguous() and value.is_contiguous() and index.is_contiguous()):
        return None
    if not torch.is_grad_enabled() or not (x.requires_grad or value.requires_grad):
        return _with_rows(x, index, value, put, add, last)
    if add:
        return cast(Tensor, _AddRows.apply(x, value, index, put))
    return cast(Tensor, _SetRows.apply(x, value, index, put, last))


def _with_rows(x: Tensor, index: Tensor, value: Tensor, put: PutRows, add: bool, last: Tensor | None) -> Tensor:
    copy = x.clone()
    put(copy, index, value, add, last)
    return copy


class _AddRows(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Tensor, value: Tensor, index: Tensor, put: PutRows) -> Tensor:
        ctx.save_for_backward(index)
        return _with_rows(x, index, value, put, True, None)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        return grad, grad[ctx.saved_tensors[0]] if ctx.needs_input_grad[1] else None, None, None


class _SetRows(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Tensor, value: Tensor, index: Tensor, put: PutRows, last: Tensor | None) -> Tensor:
        ctx.save_for_backward(index, last)
        return _with_rows(x, index, value, put, False, last)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        index, last = ctx.saved_tensors
        (grad,) = grads
        of_x, of_value, *_ = ctx.needs_input_grad
        to_value = grad[index] if of_value else None
        if to_value is not None and last is not None:
            to_value = torch.where(last.reshape(-1, *(1,) * (grad.dim() - 1)), to_value, 0.0)
        return torch.index_fill(grad, 0, index, 0.0) if of_x else None, to_value, None, None, None


def _expanded(tensor: Tensor, x: Tensor) -> Tensor:
    return tensor if tensor.shape == x.shape else tensor.expand(x.shape)
