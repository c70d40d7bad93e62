"""Fast paths for common updates. Each checks as little as it can, and returns None for what it does not handle.

A small update takes ATen a few microseconds, so a microsecond of Python counts. Devices and bounds are not checked
here: ATen does that, and `at` then takes the general path, which moves an index to x's device or explains the error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling

from outplace.updates import cached_tensors, masked_set, mode, parts, repeated_indices, views

REFUSED_BY_ATEN = (IndexError, RuntimeError)
"""Raised for an index out of range, and for tensors on different devices."""
WHERE_ELEMENTS_ON_CUDA = 1 << 24
"""Below this many elements `torch.where` is the best choice for any mask and dtype."""
INDEX_COPY_ELEMENTS = 1 << 20, 1 << 24
"""From here on, on the CPU and on CUDA, `index_copy` beats `index_put`, although negative indices must be replaced."""
FEW_ENTRIES = 1024
"""Python finds repeats among so few indices faster than ATen does."""
_BASIC = (int, slice, type(None), type(Ellipsis))  # a tuple: older Dynamos cannot read a frozenset of types
_INT64 = torch.int64
_MOST = 1 << 63
_is_deterministic: Callable[[], bool] = torch.are_deterministic_algorithms_enabled


def set_mask(x: Tensor, mask: Tensor, v: Any) -> Tensor | None:
    """A mask of x's shape, of its first dimensions, or one that broadcasts; a number, or a tensor of x's shape."""
    shape, mask_shape = x.shape, mask.shape
    if mask_shape != shape or not shape:
        missing = len(shape) - len(mask_shape)
        if missing < 0 or not mask_shape:
            return None
        for size, full in zip(mask_shape, shape, strict=False):
            if size != full and (size != 1 or missing):
                return None
        if missing:
            mask = mask.reshape(mask_shape + (1,) * missing)
    if type(v) is Tensor:
        if v.dtype is not x.dtype or v.shape != shape:
            return None
    elif not _is_number_for(x, v):
        return None
    elements = x.numel()
    if elements >= masked_set.SMALL_ON_CPU and not (elements < WHERE_ELEMENTS_ON_CUDA and x.is_cuda):
        return masked_set.masked_set(x, mask, v)
    return torch.where(mask, v if type(v) is Tensor else cached_tensors.number(v, x), x)


def set_part(x: Tensor, dim: int, item: int | slice, v: Any) -> Tensor | None:
    """One int or slice of one dimension; a number, or a tensor of x's dtype."""
    if is_compiling() or not (v.dtype is x.dtype if type(v) is Tensor else _is_number_for(x, v)):
        return None
    return parts.replaced(x, dim, item, v)


def set_view(x: Tensor, index: tuple[Any, ...], v: Any) -> Tensor | None:
    """Ints, slices, None and Ellipsis; a number or a tensor of x's dtype."""
    item = views.only_item(index)
    if item is not None:
        return set_part(x, *item, v)
    if not mode.eager() or not all(type(item) in _BASIC for item in index):
        return None
    if not (v.dtype is x.dtype and v.device == x.device if type(v) is Tensor else _is_number_for(x, v)):
        return None
    return views.assigned(x, index, v)


def set_rows(x: Tensor, index: Tensor, v: Any, unique: bool) -> Tensor | None:
    """One index tensor; a number, or a tensor of x's dtype."""
    if index.dtype is not _INT64 or not mode.eager():  # vmap's index_fill is wrong for negative indices
        return None
    elements = x.numel()
    if elements == 0:  # ATen accepts any index there
        return None
    if type(v) is not Tensor:
        if index.dim() != 1 or x.dim() == 0 or not _is_number_for(x, v):
            return None
        return torch.index_fill(x, 0, index, v)
    if v.dtype is not x.dtype:
        return None
    if not unique and mode.may_carry_gradient(v):
        if index.dim() != 1:
            return None
        if not (x.is_cpu and _are_unique(index, x)):  # on other devices it would have to wait to find out
            return last_rows(x, index, v)
    if elements >= INDEX_COPY_ELEMENTS[x.is_cuda] and index.dim() == 1 and v.dim() == x.dim():
        return torch.index_copy(x, 0, repeated_indices.from_front(index, x.size(0)), v)
    return torch.index_put(x, (index,), v)


def last_rows(x: Tensor, index: Tensor, v: Tensor) -> Tensor | None:
    """`x[index] = v`, by rows; with repeated indices the last row wins and receives the gradient. Never waits.

    The other rows are first replaced by the last one, without a gradient, so that the order of the writes is no matter.
    """
    if v.dim() != x.dim() or v.size(0) != index.size(0) or not mode.seen_only_by_autograd(v):
        return None
    index, order = _from_front(index, x.size(0)), _arange(index.size(0), index)
    latest = index.new_zeros(x.size(0)).scatter_reduce_(0, index, order, "amax")
    last = torch.take(latest, index)
    wins = (last == order).reshape(-1, *(1,) * (v.dim() - 1))
    return torch.index_copy(x, 0, index, torch.where(wins, v, v.detach().index_select(0, last)))


def add_rows(x: Tensor, index: Tensor, v: Any) -> Tensor | None:
    """One index tensor; a tensor of x's dtype with an entry for each index."""
    dims = x.dim()
    if type(v) is not Tensor or index.dtype is not _INT64 or v.dim() != dims or dims == 0 or not mode.eager():
        return None
    if x.numel() == 0:  # ATen accepts any index there
        return None
    if x.is_cuda:  # a negative index would stop the device; on the CPU it raises, and the general path replaces it
        if dims == 1 and index.shape == v.shape and not _is_deterministic():
            return torch.put(x, index, v, accumulate=True)
        index = _from_front(index, x.size(0))
    return torch.index_add(x, 0, index, v)


def _is_number_for(x: Tensor, v: Any) -> bool:
    kind = type(v)
    is_number = kind is float or (kind is int and (is_compiling() or -_MOST < v < _MOST))
    return is_number and x.is_floating_point()


def _are_unique(index: Tensor, x: Tensor) -> bool:
    size = x.size(0)
    if index.size(0) > FEW_ENTRIES:
        return repeated_indices.none((index,), x.shape)
    entries = index.tolist()
    return len({entry % size for entry in entries}) == len(entries)


def _from_front(index: Tensor, size: int) -> Tensor:
    """The index with negative entries counted from the front; in one operation where the size is small."""
    order = cached_tensors.positions(0, size, index)
    return repeated_indices.from_front(index, size) if order is None else torch.take(order, index)


def _arange(size: int, like: Tensor) -> Tensor:
    order = cached_tensors.positions(0, size, like)
    return torch.arange(size, device=like.device) if order is None else order
