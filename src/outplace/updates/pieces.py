"""A part of one dimension, replaced without being copied first: `clone` and then a write would move it twice.

By a kernel where there is one; elsewhere a large part of the first dimension is put between what is before and after
it. That of another dimension is written to a copy, too, but the gradients of both cost less than those of such a write.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor

from outplace.updates import kernels, mode
from outplace.updates.index import extent
from outplace.updates.kernels.function import set_part

FROM_BYTES = {"cpu": 1 << 22, "cuda": 1 << 26}
LEAST_ELEMENTS = min(FROM_BYTES.values()) // 16
"""A tensor of fewer elements is smaller, whatever its dtype; they are quicker to count than bytes."""
FROM_SHARE = 1 / 16
"""The smallest tensor, and the smallest part of it, for which this beats a copy and a write without a kernel."""


def replaced(x: Tensor, dim: int, item: Any, part: Any, index: Any) -> Tensor | None:
    """A copy of x with `item`, an int or slice of `dim`, replaced by the part, or None where another way is as good.

    The index is that of which `item` is the only one that chooses.
    """
    if not mode.seen_only_by_autograd(x) or not x.is_contiguous():
        return None
    by_kernel = kernels.sets_parts(x, index, part) and (isinstance(part, Tensor) or kernels.fits(part, x))
    if not by_kernel and not _is_large(x):
        return None
    of_part = [*x.shape]
    size = of_part[dim]
    if type(item) is slice:
        start, stop, step = extent(item, size)
        if step != 1:
            return None
        of_part[dim] = stop - start
    elif type(item) is int and -size <= item < size:
        start = item % size
        stop = start + 1
        del of_part[dim]
    else:
        return None
    if not by_kernel and stop - start < size * FROM_SHARE:
        return None
    if isinstance(part, Tensor):
        if not mode.is_memory(part):
            return None
        if [*part.shape] != of_part:
            part = part.expand(of_part)
    if by_kernel and x.numel():
        return kernels.part_set(x, dim, start, stop, part.contiguous() if isinstance(part, Tensor) else part, index)

    def put_together(x: Tensor, _: Any, part: Any) -> Tensor:
        return _put_together(x, part, dim, start, stop, type(item) is int)

    return cast(Tensor, set_part.apply(x, index, part, put_together))


def _is_large(x: Tensor) -> bool:
    return bool(x.numel() * x.element_size() >= FROM_BYTES.get(x.device.type, 1 << 62))


def _put_together(x: Tensor, part: Any, dim: int, start: int, stop: int, one: bool) -> Tensor:
    in_one_piece = math.prod([*x.shape][:dim]) == 1
    result = torch.empty_like(x) if in_one_piece else x.clone()
    middle = result.select(dim, start) if one else result.narrow(dim, start, stop - start)
    if isinstance(part, Tensor):
        middle.copy_(part)
    else:
        middle[...] = part  # fill_ would refuse what is too large for float16
    if in_one_piece:
        rest = x.shape[dim] - stop
        result.narrow(dim, 0, start).copy_(x.narrow(dim, 0, start))
        result.narrow(dim, stop, rest).copy_(x.narrow(dim, stop, rest))
    return result
