"""The short ways for what is common: each looks at as little as it can, and returns None for what it does not know.

A small update is a few microseconds of ATen, so a microsecond of Python counts. `place.update` knows everything, and
explains what is wrong; whatever fails here is tried again there.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from outplace.updates import constants, kernels, mode, pieces, repeats, views
from outplace.updates.kernels import again

NUMBERS = (float, int)  # tuples: older Dynamos cannot look into a frozenset of types
BASIC = (int, slice, type(None), type(Ellipsis))
FULL = slice(None)
_INT64 = torch.int64
FEW_ENTRIES = 1024
"""So many are compared quicker by Python than by ATen's operations."""
FAILURES = (ZeroDivisionError, IndexError, OverflowError, RuntimeError, TypeError, ValueError)


def set_small(x: Tensor, mask: Tensor, v: Any) -> Tensor | None:
    """The most common: a mask of x's shape, and a number or a tensor of this shape."""
    shape = x.shape
    if mask.shape != shape or not shape:
        return None
    try:
        if type(v) is float:
            if x.is_floating_point():
                number = constants.number(v, x)
                return torch.where(mask, v if number is None else number, x)
        elif type(v) is Tensor and v.dtype is x.dtype and v.shape == shape:
            return torch.where(mask, v, x)
    except RuntimeError:  # they are on different devices
        pass
    return None


def set_mask(x: Tensor, mask: Tensor, v: Any) -> Tensor | None:
    """A mask over leading dimensions, or one that broadcasts; a number, or a tensor of x's shape."""
    shape, own = x.shape, mask.shape
    if type(v) in NUMBERS:
        if not x.is_floating_point():
            return None
    elif type(v) is not Tensor or v.dtype is not x.dtype or v.shape != shape or v.device != x.device:
        return None
    if own != shape:
        missing = len(shape) - len(own)
        if missing < 0 or not own:
            return None
        for size, full in zip(own, shape, strict=False):
            if size != full and (size != 1 or missing):
                return None
        wide = mask.reshape(own + (1,) * missing) if missing else mask
    else:
        wide = mask
    if mask.device != x.device:
        return None
    try:
        return kernels.masked_set(x, wide, v, mask)
    except OverflowError:  # an int that is too large for PyTorch
        return None


def set_item(x: Tensor, dim: int, item: Any, v: Any, index: Any) -> Tensor | None:
    """One int or slice of one dimension, all that the index has; a number, or a tensor of x's dtype.

    Not by ATen's `slice_scatter` and `select_scatter`: they copy all of the memory that x is a view of, and backward
    all that the gradient is a view of, which after `torch.stack` is the gradient of everything.
    """
    if not mode.eager():
        return None
    if type(v) in NUMBERS:
        if not x.is_floating_point():
            return None
    elif type(v) is not Tensor or v.dtype is not x.dtype or v.device != x.device:
        return None
    try:
        elements = x.numel()
        if elements >= pieces.LEAST_ELEMENTS or x.is_cuda:
            done = pieces.replaced(x, dim, item, v, index)
            if done is not None:
                return done
        if elements < kernels.CPU_ELEMENTS:  # autograd is quicker with kept places than with a write to a copy
            if type(v) is not Tensor:
                places = constants.part(x.size(dim), item, x) if x.requires_grad else None
                if places is not None:
                    return torch.index_fill(x, dim, places, v)
            elif x.requires_grad or v.requires_grad:
                one = type(item) is int
                places = constants.part(x.size(dim), item, x) if v.dim() + one == x.dim() else None
                if places is not None:
                    return torch.index_copy(x, dim, places, v.unsqueeze(dim) if one else v)
        return _assigned(x, (FULL,) * dim + (item,), v)
    except FAILURES:
        return None


def set_view(x: Tensor, index: tuple[Any, ...], v: Any) -> Tensor | None:
    """Ints, slices, None and Ellipsis; a number or a tensor of x's dtype."""
    one = views.only_item(index)
    if one is not None:
        return set_item(x, *one, v, index)
    if not all(type(item) in BASIC for item in index):
        return None
    if type(v) in NUMBERS:
        if not x.is_floating_point():
            return None
    elif type(v) is not Tensor or v.dtype is not x.dtype or v.device != x.device or not mode.eager():
        return None
    try:
        return _assigned(x, index, v)
    except FAILURES:
        return None


def _assigned(x: Tensor, index: Any, v: Any) -> Tensor:
    copy = x.clone()
    copy[index] = v
    return copy


def set_places(x: Tensor, index: Tensor, v: Any, unique: bool) -> Tensor | None:
    """One index tensor; a number, or a tensor of x's dtype for which repeated indices need no care.

    What does not fit in its device or shape, ATen refuses here and below; its autocast takes tensors of two dtypes.
    """
    if index.dtype is not _INT64 or not mode.eager():  # vmap's index_fill is wrong for negative indices
        return None
    if x.numel() == 0:  # there ATen lets wrong indices pass
        return None
    how = again.SET_UNIQUE if unique else again.SET
    try:
        if type(v) in NUMBERS:
            if index.dim() != 1 or x.dim() == 0 or not x.is_floating_point():
                return None
            done = kernels.rows_put(x, index, v, how) if x.is_cuda else None
            return torch.index_fill(x, 0, index, v) if done is None else done
        if type(v) is not Tensor or v.dtype is not x.dtype:
            return None
        unique = unique or not mode.may_carry_gradient(v)
        if x.is_cpu:
            if not unique and index.dim() == 1:
                few = index.size(0) <= FEW_ENTRIES
                unique = _named_once(index.tolist(), x.size(0)) if few else repeats.none((index,), x.shape)
            # quicker; negative indices are an error, tried again elsewhere
            if unique and index.dim() == 1 and v.dim() == x.dim() and v.size(0) == index.size(0):
                return torch.index_copy(x, 0, index, v)
        else:
            done = kernels.rows_put(x, index, v, how) if x.is_cuda else None
            if done is None and not unique:
                done = last_rows(x, index, v)
            if done is not None:
                return done
        return torch.index_put(x, (index,), v) if unique else None
    except FAILURES:
        return None


def _named_once(index: list[int], size: int) -> bool:
    return len({place % size for place in index}) == len(index)


def last_rows(x: Tensor, index: Tensor, v: Tensor) -> Tensor | None:
    """`x[index] = v`, by rows; of several for a place the last counts and has the gradient. Waits for nothing.

    The others are overwritten with it beforehand, without a gradient, so that the order of the writes does not matter.
    """
    if index.dim() != 1 or v.dim() != x.dim() or v.size(0) != index.size(0) or not mode.seen_only_by_autograd(v):
        return None
    index, order = _from_front(index, x.size(0)), _range(index.size(0), index)
    latest = index.new_zeros(x.size(0)).scatter_reduce_(0, index, order, "amax")
    last = torch.take(latest, index)
    counts = (last == order).reshape(-1, *(1,) * (v.dim() - 1))
    return torch.index_copy(x, 0, index, torch.where(counts, v, v.detach().index_select(0, last)))


def _from_front(index: Tensor, size: int) -> Tensor:
    order = constants.positions(size, index)
    return repeats.from_front(index, size) if order is None else torch.take(order, index)


def _range(size: int, like: Tensor) -> Tensor:
    order = constants.positions(size, like)
    return torch.arange(size, device=like.device) if order is None else order


def add_places(x: Tensor, index: Tensor, v: Any) -> Tensor | None:
    """One index tensor; a tensor of x's dtype with an entry for each index."""
    if type(v) is not Tensor:
        return None
    dims = x.dim()
    try:
        if dims and x.is_cuda:
            done = kernels.rows_put(x, index, v, again.ADD)
            if done is not None:
                return done
        if index.dtype is not _INT64 or v.dim() != dims or dims == 0 or not mode.eager():
            return None
        if x.numel() == 0:  # there ATen lets wrong indices pass
            return None
        if x.is_cuda:  # where negative indices would kill the process
            if dims == 1 and index.shape == v.shape and not torch.are_deterministic_algorithms_enabled():
                return torch.put(x, index, v, accumulate=True)
            index = _from_front(index, x.size(0))
        return torch.index_add(x, 0, index, v)
    except FAILURES:
        return None
