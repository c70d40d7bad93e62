"""Updates of a view (ints, slices, None): the part of x that a basic index chooses, and x with that part replaced."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from outplace.updates import mode, pieces


def replaced(x: Tensor, view: tuple[Any, ...], part: Any) -> Tensor:
    """A copy of x with `x[view]` replaced by `part`, a number or a tensor that broadcasts to it."""
    if not isinstance(part, Tensor) or mode.eager():
        done = pieces.replaced(x, view, part)
        if done is not None:
            return done
        copy = x.clone()
        copy[view] = part
        return copy
    return _scattered(x, view, part.expand(x[view].shape))


def _scattered(x: Tensor, view: tuple[Any, ...], part: Tensor) -> Tensor:
    """The same without a write, which vmap would refuse: from the outermost axis inwards, each part into its whole."""
    for dim in reversed([dim for dim, item in enumerate(_without_ints(view)) if item is None]):
        part = part.squeeze(dim)
    return _into(x, [item for item in view if item is not None], 0, part)


def _into(x: Tensor, items: list[Any], dim: int, part: Tensor) -> Tensor:
    if not items:
        return part
    first, rest = items[0], items[1:]
    if isinstance(first, slice):
        if first == slice(None):
            return _into(x, rest, dim + 1, part)
        start, stop, step = first.indices(x.shape[dim])
        inner = _into(x[(slice(None),) * dim + (first,)], rest, dim + 1, part)
        return torch.slice_scatter(x, inner, dim, start, max(start, stop), step)
    return torch.select_scatter(x, _into(x.select(dim, first), rest, dim, part), dim, first)


def _without_ints(view: tuple[Any, ...]) -> list[Any]:
    return [item for item in view if item is None or isinstance(item, slice)]
