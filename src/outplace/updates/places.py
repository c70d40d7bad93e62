"""Updates at index tensors, with a gradient that is right where places are named more than once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from outplace.updates import mode, repeats, values
from outplace.updates.arithmetic import Arithmetic

Places = Sequence[Tensor | None]


class Layout(NamedTuple):
    """Where the dimensions of the index tensors lie in `x[places]`."""

    shape: tuple[int, ...]
    """The shape of `x[places]`."""
    first: int
    """The dimension at which those of the index begin."""
    entries: tuple[int, ...]
    """The shape of the broadcast index tensors."""


def layout(x: Tensor, places: Places) -> Layout:
    """As numpy and torch have it: in the place of the indexed dimensions if these are neighbours, else in front."""
    dims = [dim for dim, place in enumerate(places) if place is not None]
    try:
        entries = repeats.entries([place for place in places if place is not None])
    except RuntimeError:
        shapes = ", ".join(str(tuple(place.shape)) for place in places if place is not None)
        raise IndexError(f"the index tensors of shapes {shapes} do not broadcast together") from None
    rest = [size for dim, size in enumerate(x.shape) if dim not in dims]
    first = dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0
    return Layout((*rest[:first], *entries, *rest[first:]), first, entries)


def put(x: Tensor, places: Places, value: Any, unique: bool) -> Tensor:
    """A copy of x with the value at the places; of several values for a place the last counts and has the gradient."""
    where = layout(x, places)
    value = values.broadcast(value, where.shape)
    if isinstance(value, Tensor) and not unique and mode.may_carry_gradient(value) and not _named_once(x, places):
        return _put_last(x, places, value, repeats.last_of_each(*repeats.flat(places, x.shape)), where)
    return _index_put(x, places, values.as_tensor(value, x))


def add(x: Tensor, places: Places, value: Any) -> Tensor:
    """A copy of x with the value added at the places, as often as they are named."""
    where = layout(x, places)
    value = values.as_tensor(values.broadcast(value, where.shape), x)
    dim, index = only(places)
    if index is not None and index.dim() == 1:
        return torch.index_add(x, dim, repeats.from_front(index, x.shape[dim]), value.expand(where.shape))
    return _index_put(x, places, value, accumulate=True)


def change(x: Tensor, places: Places, value: Any, operation: Arithmetic, unique: bool) -> Tensor:
    """A copy of x with `operation(x, value)` at the places, as often as they are named."""
    where = layout(x, places)
    value = values.broadcast(value, where.shape)
    old = get(x, places)
    if unique or _named_once(x, places):
        return _index_put(x, places, operation(old, value).to(x.dtype))
    entries, count = repeats.flat(places, x.shape)
    last = repeats.last_of_each(entries, count)
    value = values.as_tensor(value, x).expand(where.shape)
    rows = value.movedim(_dims(where), tuple(range(len(where.entries))))
    rows = repeats.combined(entries.expand(where.entries), rows, operation.combine)
    value = rows.movedim(tuple(range(len(where.entries))), _dims(where))
    counts = _aligned(last, where)
    # ones where the values do not count: an inf or nan there would reach the gradients as 0 * inf
    new = operation(torch.where(counts, old, 1), torch.where(counts, value, 1))
    return _put_last(x, places, new.to(x.dtype), last, where)


def get(x: Tensor, places: Places) -> Tensor:
    """`x[places]`; here a mask of n dimensions counts as n places."""
    return torch.ops.aten.index.Tensor(x, list(places))  # x[...] would read the value of a 0-d tensor


def _put_last(x: Tensor, places: Places, value: Tensor, last: Tensor, where: Layout) -> Tensor:
    """Puts those values that are the last ones for their place, by adding: to all others it adds nothing.

    What is added to and what adds nothing is -0.0, the one number that leaves every other as it is, signs included.
    The sum is linear in the values, so backward and forward gradients know that only the last ones count.
    """
    nothing = x.new_full((), -0.0)
    emptied = _index_put(x, places, nothing)
    return _index_put(emptied, places, torch.where(_aligned(last, where), value, nothing), accumulate=True)


def _aligned(last: Tensor, where: Layout) -> Tensor:
    last = last.expand(where.entries)
    return last.reshape(where.entries + (1,) * (len(where.shape) - where.first - len(where.entries)))


def _dims(where: Layout) -> tuple[int, ...]:
    return tuple(range(where.first, where.first + len(where.entries)))


def _named_once(x: Tensor, places: Places) -> bool:
    """Is every place named once? False where that cannot be known."""
    if all(place is None or place.numel() == 1 for place in places):
        return True
    return mode.looks_at_values(*(place for place in places if place is not None)) and repeats.none(places, x.shape)


def only(places: Places) -> tuple[int, Tensor | None]:
    """The dimension and the tensor, if one dimension alone is indexed."""
    chosen = [(dim, place) for dim, place in enumerate(places) if place is not None]
    return chosen[0] if len(chosen) == 1 else (0, None)


def _index_put(x: Tensor, places: Places, value: Tensor, accumulate: bool = False) -> Tensor:
    used = list(places)
    while used and used[-1] is None:
        used.pop()
    if any(place is None for place in used):  # which torch.index_put does not take
        return torch.ops.aten.index_put.default(x, used, value, accumulate)
    return torch.index_put(x, tuple(used), value, accumulate)
