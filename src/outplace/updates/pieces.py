"""A large part of one dimension, replaced without being copied first: `clone` and then a write would move it twice.

By a kernel where there is one, elsewhere of the first dimension only: what is before it, the part, and the rest.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from outplace.updates import kernels, mode
from outplace.updates.index import extent

FROM_BYTES = {"cpu": 1 << 22, "cuda": 1 << 26}
FROM_BYTES_BY_KERNEL = 1 << 22
LEAST_ELEMENTS = min(FROM_BYTES.values()) // 16
"""A tensor of fewer elements is smaller, whatever its dtype; they are quicker to count than bytes."""
FROM_SHARE = 1 / 16
"""The smallest tensor, and the smallest part of it, for which this is quicker than a copy and a write."""


def replaced(x: Tensor, dim: int, item: Any, part: Any) -> Tensor | None:
    """A copy of x with `item`, an int or slice of `dim`, replaced by the part, or None where another way is as good."""
    if not is_large(x) or not mode.seen_only_by_autograd(x) or not x.is_contiguous():
        return None
    size = x.shape[dim]
    if type(item) is slice:
        start, stop, step = extent(item, size)
    elif type(item) is int and -size <= item < size:
        start, stop, step = item % size, item % size + 1, 1
    else:
        return None
    if step != 1 or stop - start < size * FROM_SHARE:
        return None
    if x.shape[:dim].numel() != 1 and not kernels.sets_parts(x):
        return None
    if isinstance(part, Tensor):
        if not mode.seen_only_by_autograd(part):
            return None
        if type(item) is int:
            part = part.expand(x.shape[:dim] + x.shape[dim + 1 :]).unsqueeze(dim)
        else:
            part = part.expand(*x.shape[:dim], stop - start, *x.shape[dim + 1 :])
    return cast(Tensor, _Replaced.apply(x, part, dim, start, stop))


def is_large(x: Tensor) -> bool:
    """May it pay to look further?"""
    nbytes = x.numel() * x.element_size()
    if nbytes >= FROM_BYTES.get(x.device.type, 1 << 62):
        return True
    return nbytes >= FROM_BYTES_BY_KERNEL and kernels.sets_parts(x)


class _Replaced(torch.autograd.Function):  # type: ignore[misc]
    # without setup_context, which is slow; transforms do not come here

    @staticmethod
    def forward(ctx: Any, x: Tensor, part: Any, dim: int, start: int, stop: int) -> Tensor:
        ctx.cut = dim, start, stop
        return _put_together(x, part, dim, start, stop)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        dim, start, stop = ctx.cut
        to_part = grad.narrow(dim, start, stop - start) if ctx.needs_input_grad[1] else None
        to_x = None
        if ctx.needs_input_grad[0]:
            if not mode.seen_only_by_autograd(grad):
                to_x = torch.slice_scatter(
                    grad, torch.zeros_like(grad.narrow(dim, start, stop - start)), dim, start, stop
                )
            elif torch.is_grad_enabled() and grad.requires_grad:
                to_x = _Replaced.apply(grad.contiguous(), 0, dim, start, stop)
            else:
                to_x = _put_together(grad.contiguous(), 0, dim, start, stop)
        return to_x, to_part, None, None, None


def _put_together(x: Tensor, part: Any, dim: int, start: int, stop: int) -> Tensor:
    if kernels.sets_parts(x):
        return kernels.part_set(x, dim, start, stop, part)
    size = x.shape[dim]
    before, after = x.narrow(dim, 0, start), x.narrow(dim, stop, size - stop)
    result = torch.empty_like(x)
    result.narrow(dim, 0, start).copy_(before)
    result.narrow(dim, start, stop - start)[...] = part  # fill_ would refuse what is too large for float16
    result.narrow(dim, stop, size - stop).copy_(after)
    return result
