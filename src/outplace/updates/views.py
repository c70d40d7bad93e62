"""Updates of a view (ints, slices, None): x with the part replaced that a basic index chooses."""

from __future__ import annotations

from typing import Any

import torch
from torch import SymInt, Tensor
from torch.compiler import is_compiling

from outplace.updates import mode, parts
from outplace.updates.index import extent

FULL = slice(None)


def replaced(x: Tensor, view: tuple[Any, ...], part: Any) -> Tensor:
    """A copy of x with `x[view]` replaced by `part`, a number or a tensor that broadcasts to it."""
    eager = mode.eager()
    item = only_item(view) if eager else None
    result = None if item is None else parts.replaced(x, *item, part)
    if result is not None:
        return result
    if isinstance(part, Tensor) and not eager:
        items = [item for item in view if item is not None]
        part = _without_new_axes(view, part.expand(x[view].shape))
        return part.clone() if all(item == FULL for item in items) else _into(x, items, 0, part)
    return assigned(x, view, part)


def assigned(x: Tensor, index: Any, value: Any) -> Tensor:
    """A copy of x, written to in place."""
    copy = x.clone()
    copy[index] = value
    return copy


def only_item(view: tuple[Any, ...]) -> tuple[int, Any] | None:
    """The dimension and the item, if the view chooses by one int or slice alone."""
    chosen = None
    for dim, item in enumerate(view):
        kind = type(item)
        if kind is slice:
            if item.start is None and item.stop is None and item.step is None:
                continue
        elif kind is not int and kind is not SymInt:
            return None
        if chosen is not None:
            return None
        chosen = dim, item
    return chosen


def scattered(x: Tensor, dim: int, item: Any, part: Tensor) -> Tensor:
    """x with one int or slice of a dimension replaced, without a write in place, which vmap may refuse."""
    if not is_compiling() or x.is_complex():
        # ATen's scatters copy all of the memory that x is a view of, and have no gradient for complex numbers
        positions = torch.arange(x.shape[dim], device=x.device)[item]
        return torch.ops.aten.index_put.default(x, [None] * dim + [positions], part)
    if isinstance(item, slice):
        return torch.slice_scatter(x, part, dim, *extent(item, x.shape[dim]))
    return torch.select_scatter(x, part, dim, item)


def _into(x: Tensor, items: list[Any], dim: int, part: Tensor) -> Tensor:
    """x with the part at the items, of dimensions from `dim` on; the innermost part first, each into its whole."""
    if not items:
        return part
    first, rest = items[0], items[1:]
    if not isinstance(first, slice):
        return scattered(x, dim, first, _into(x.select(dim, first), rest, dim, part))
    if first == FULL:
        return _into(x, rest, dim + 1, part)
    return scattered(x, dim, first, _into(x[(FULL,) * dim + (first,)], rest, dim + 1, part))


def _without_new_axes(view: tuple[Any, ...], part: Tensor) -> Tensor:
    dims = [item for item in view if item is None or isinstance(item, slice)]
    for dim in reversed(range(len(dims))):
        if dims[dim] is None:
            part = part.squeeze(dim)
    return part
