"""A large slice, replaced without being copied first: what lies before it, the new part, and what lies after it.

`clone` and then a write moves the bytes of the slice twice. Below a size and a share of the tensor nothing is gained.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from outplace.updates import mode

FROM_ELEMENTS = 1 << 20
FROM_SHARE = 1 / 16
"""The smallest tensor, and the smallest part of it, for which three writes are quicker than a copy and a write."""


def replaced(x: Tensor, view: tuple[Any, ...], part: Any) -> Tensor | None:
    """A copy of x with the slice `x[view]` replaced, or None where another way is as good."""
    if x.numel() < FROM_ELEMENTS or not mode.seen_only_by_autograd(x) or not x.is_contiguous():
        return None
    cut = _cut(x, view)
    if cut is None:
        return None
    dim, start, stop = cut
    if isinstance(part, Tensor):
        if not mode.seen_only_by_autograd(part):
            return None
        shape = list(x.shape)
        shape[dim] = stop - start
        part = part.expand(shape)
    result: Tensor = _Replaced.apply(x, part, dim, start, stop)
    return result


def _cut(x: Tensor, view: tuple[Any, ...]) -> tuple[int, int, int] | None:
    """The dimension, start and stop of the slice, where the view is one slice of step 1 and worth the while."""
    narrow = [dim for dim, item in enumerate(view) if item != slice(None)]
    if len(narrow) != 1 or None in view:
        return None
    dim = narrow[0]
    item = view[dim]
    if not isinstance(item, slice):
        return None
    size = x.shape[dim]
    start, stop, step = item.indices(size)
    run = (stop - start) * x.stride(dim)
    # short runs (the slice lies across many rows) are copied at the same speed, but their remainders are not
    if step != 1 or stop - start < size * FROM_SHARE or min(run, x.stride(dim) * size - run) < 64:
        return None
    return dim, start, stop


class _Replaced(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, part: Any, dim: int, start: int, stop: int) -> Tensor:
        result = torch.empty_like(x)
        size = x.shape[dim]
        if start > 0:
            result.narrow(dim, 0, start).copy_(x.narrow(dim, 0, start))
        inside = result.narrow(dim, start, stop - start)
        inside.copy_(part) if isinstance(part, Tensor) else inside.fill_(part)
        if stop < size:
            result.narrow(dim, stop, size - stop).copy_(x.narrow(dim, stop, size - stop))
        return result

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, _, ctx.dim, ctx.start, ctx.stop = inputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        cut = ctx.dim, ctx.start, ctx.stop
        inside = (slice(None),) * ctx.dim + (slice(ctx.start, ctx.stop),)
        to_x = to_part = None
        if ctx.needs_input_grad[0]:
            grad = grad.contiguous()
            to_x = _Replaced.apply(grad, 0, *cut)
        if ctx.needs_input_grad[1]:
            to_part = grad[inside]
        return to_x, to_part, None, None, None
