"""A large part of one dimension, replaced without being copied first: `clone` and then a write would move it twice.

By a kernel where there is one; elsewhere a part of the first dimension is put between what is before and after it. That
of another dimension is written to a copy, too, but the gradients of both cost less here than those of such a write.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor

from outplace.updates import kernels, mode
from outplace.updates.index import extent
from outplace.updates.kernels.function import applying

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
    of_part = [*x.shape]
    size = of_part[dim]
    if type(item) is slice:
        start, stop, step = extent(item, size)
        if step != 1 or stop - start < size * FROM_SHARE:
            return None
        of_part[dim] = stop - start
    elif type(item) is int and -size <= item < size and size * FROM_SHARE <= 1:
        start = item % size
        stop = start + 1
        del of_part[dim]
    else:
        return None
    if isinstance(part, Tensor):
        if not mode.is_memory(part):
            return None
        if [*part.shape] != of_part:
            part = part.expand(of_part)
    return cast(Tensor, _replaced(x, part, dim, start, stop, type(item) is int))


def is_large(x: Tensor) -> bool:
    """May it pay to look further?"""
    nbytes = x.numel() * x.element_size()
    if x.is_cuda and nbytes >= FROM_BYTES_BY_KERNEL and kernels.sets_parts(x):
        return True
    return bool(nbytes >= FROM_BYTES.get(x.device.type, 1 << 62))


class _Replaced(torch.autograd.Function):  # type: ignore[misc]
    # without setup_context, which is slow; transforms do not come here

    @staticmethod
    def forward(ctx: Any, x: Tensor, part: Any, dim: int, start: int, stop: int, one: bool) -> Tensor:
        ctx.cut = dim, start, stop, one
        return _put_together(x, part, dim, start, stop, one)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        dim, start, stop, one = ctx.cut
        of_x, of_part, *_ = ctx.needs_input_grad
        to_x = to_part = None
        if of_part:
            to_part = grad.select(dim, start) if one else grad.narrow(dim, start, stop - start)
        if of_x:
            if not mode.seen_only_by_autograd(grad):
                zeros = torch.zeros_like(grad.narrow(dim, start, stop - start))
                to_x = torch.slice_scatter(grad, zeros, dim, start, stop)
            elif grad.requires_grad and torch.is_grad_enabled():
                to_x = _Replaced.apply(grad.contiguous(), 0, dim, start, stop, one)
            else:
                to_x = _put_together(grad.contiguous(), 0, dim, start, stop, one)
        return to_x, to_part, None, None, None, None


_replaced = applying(_Replaced)


def _put_together(x: Tensor, part: Any, dim: int, start: int, stop: int, one: bool) -> Tensor:
    if kernels.sets_parts(x):
        return kernels.part_set(x, dim, start, stop, part)
    in_one_piece = math.prod([*x.shape][:dim]) == 1
    result = torch.empty_like(x) if in_one_piece else x.clone()
    middle = result.select(dim, start) if one else result.narrow(dim, start, stop - start)
    middle[...] = part  # fill_ would refuse what is too large for float16
    if in_one_piece:
        rest = x.shape[dim] - stop
        result.narrow(dim, 0, start).copy_(x.narrow(dim, 0, start))
        result.narrow(dim, stop, rest).copy_(x.narrow(dim, stop, rest))
    return result
