"""The short ways for what is common: each looks at as little as it can, and returns None for what it does not know.

A small update is a few microseconds of ATen, so a microsecond of Python counts. `place.update` knows everything, and
explains what is wrong; whatever fails here is tried again there.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from outplace.updates import kernels, mode, pieces, repeats, views

NUMBERS = frozenset((float, int))
BASIC = frozenset((int, slice, type(None), type(Ellipsis)))
FAILURES = (IndexError, RuntimeError, TypeError, ValueError)


def set_mask(x: Tensor, mask: Tensor, v: Any) -> Tensor | None:
    """A mask over leading dimensions, or one that broadcasts; a number, or a tensor of x's shape."""
    if type(v) in NUMBERS:
        if not x.is_floating_point():
            return None
    elif type(v) is not Tensor or v.dtype is not x.dtype or v.shape != x.shape or v.device != x.device:
        return None
    shape = x.shape
    if mask.shape != shape:
        missing = x.dim() - mask.dim()
        if missing == 0:
            for size, full in zip(mask.shape, shape, strict=True):
                if size != full and size != 1:
                    return None
        elif missing < 0 or missing == x.dim() or mask.shape != shape[:-missing]:
            return None
        else:
            mask = mask.reshape(mask.shape + (1,) * missing)
    return kernels.masked_set(x, mask, v) if mask.device == x.device else None


def set_view(x: Tensor, index: Any, v: Any) -> Tensor | None:
    """Ints, slices, None and Ellipsis; a number or a tensor of x's dtype."""
    number = type(v) in NUMBERS
    if number:
        if not x.is_floating_point():
            return None
    elif type(v) is not Tensor or v.dtype is not x.dtype or v.device != x.device or not mode.eager():
        return None
    try:
        if not number or pieces.is_large(x):
            one = views.only_item(index if type(index) is tuple else (index,))
            if one is not None:
                done = pieces.replaced(x, *one, v)
                if done is not None:
                    return done
                if not number and x.is_contiguous() and v.dim() == x.dim() - (type(one[1]) is int):
                    return views.scattered(x, *one, v)
        copy = x.clone()
        copy[index] = v
        return copy
    except FAILURES:
        return None


def set_places(x: Tensor, index: Tensor, v: Any, unique: bool) -> Tensor | None:
    """One index tensor; a number, or a tensor of x's dtype for which repeated indices need no care."""
    if index.dtype is not torch.int64 or index.dim() != 1 or index.device != x.device or x.dim() == 0:
        return None
    if not mode.eager():  # vmap's index_fill is wrong for negative indices
        return None
    try:
        if type(v) in NUMBERS:
            return torch.index_fill(x, 0, index, v) if x.is_floating_point() else None
        if type(v) is not Tensor or v.dtype is not x.dtype or v.device != x.device:
            return None
        if unique or not mode.may_carry_gradient(v):
            if v.dim() != x.dim() or len(v) != len(index) or not (x.is_cpu or kernels.is_large(x)):
                return torch.index_put(x, (index,), v)
            # quicker, but it knows no negative indices: an error here, which is tried again, and death on CUDA
            return torch.index_copy(x, 0, index if x.is_cpu else repeats.from_front(index, len(x)), v)
    except FAILURES:
        pass
    return None


def add_places(x: Tensor, index: Tensor, v: Any) -> Tensor | None:
    """One index tensor; a tensor of x's dtype with an entry for each index."""
    if index.dtype is not torch.int64 or index.dim() != 1 or type(v) is not Tensor or v.dtype is not x.dtype:
        return None
    if v.dim() != x.dim() or len(v) != len(index) or v.device != x.device or not mode.eager():
        return None
    if x.is_cuda:  # where negative indices would kill the process
        index = repeats.from_front(index, len(x))
    try:
        return torch.index_add(x, 0, index, v)
    except FAILURES:
        return None
