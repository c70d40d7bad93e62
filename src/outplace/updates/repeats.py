"""Repeated indices: which of the values counts, and what several of them come to.

All but `none` is free of branches (sorts, scatters and scans), so it traces, batches and differentiates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from outplace.updates import mode

try:
    import numpy
except ImportError:  # torch does without it, too
    numpy = None  # type: ignore[assignment]

_FEW = 1 / 64
"""Up to this share of all places, entries are sorted rather than noted in a tensor of all places."""


def from_front(index: Tensor, size: int) -> Tensor:
    """The index with negative entries counted from the front; what is out of range stays so."""
    return torch.sub(index, index >> (63 if index.dtype is torch.int64 else 31), alpha=size)


def flat(places: Sequence[Tensor | None], shape: Sequence[int]) -> tuple[Tensor, int]:
    """Each entry of the broadcast index tensors as one number, and how many numbers there are."""
    total: Tensor | None = None
    count = 1
    for place, size in zip(places, shape, strict=False):
        if place is None:
            continue
        place = from_front(place.long(), size)
        total = place if total is None else total * size + place
        count *= size
    assert total is not None
    return total, count


def entries(index: Sequence[Tensor]) -> tuple[int, ...]:
    """The shape of the index tensors, broadcast together."""
    return tuple(index[0].shape if len(index) == 1 else torch.broadcast_shapes(*(place.shape for place in index)))


def none(places: Sequence[Tensor | None], shape: Sequence[int]) -> bool:
    """Is every place named once? Looks at the values."""
    chosen = [(place, shape[dim]) for dim, place in enumerate(places) if place is not None]
    index = tuple(place for place, _ in chosen)
    sizes = [size for _, size in chosen]
    wide = entries(index)
    if math.prod(wide) < math.prod(sizes) * _FEW:
        ordered = flat(places, shape)[0].reshape(-1).sort().values
        return bool((ordered[1:] != ordered[:-1]).all())
    if numpy is not None and all(place.is_cpu for place in index):  # which takes a quarter of the time
        noted = numpy.zeros(sizes, dtype=bool)
        noted[tuple(place.numpy() for place in index)] = True
        return int(numpy.count_nonzero(noted)) == math.prod(wide)
    named = torch.zeros(sizes, dtype=torch.bool, device=index[0].device)
    named[index] = True
    return int(named.count_nonzero()) == math.prod(wide)


def last_of_each(entries: Tensor, count: int) -> Tensor:
    """True at the last of the entries that name the same place; entries as `flat` gives them."""
    order = torch.arange(entries.numel(), device=entries.device)
    latest = torch.zeros(count, dtype=torch.long, device=entries.device)
    latest = latest.scatter_reduce(0, entries.reshape(-1), order, "amax")
    return (latest[entries.reshape(-1)] == order).reshape(entries.shape)


def combined(entries: Tensor, values: Tensor, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """At the last of the entries for each place: the values of all of them, combined; elsewhere any of them.

    `values` has the shape of `entries` and then its own. The entries are sorted by place, and then scanned within each
    place: after the step of width w each value stands for up to 2 w entries that end with it.
    """
    size = entries.numel()
    if size < 2:
        return values
    rows = values.reshape(size, *values.shape[entries.dim() :])
    places, order = torch.sort(entries.reshape(-1), stable=True)
    rows = rows[order]
    wide = (size,) + (1,) * (rows.dim() - 1)
    width = 1
    longest = _longest_run(places) if mode.looks_at_values(places) else size
    while width < longest:
        same = torch.cat([places.new_zeros(width, dtype=torch.bool), places[width:] == places[:-width]]).reshape(wide)
        earlier = torch.constant_pad_nd(rows[:-width], (0, 0) * (rows.dim() - 1) + (width, 0), 1)
        # ones where nothing is combined: an inf or nan of another place would reach the gradients as 0 * inf
        rows = torch.where(same, combine(torch.where(same, earlier, 1), rows), rows)
        width *= 2
    back = torch.empty_like(order).scatter(0, order, torch.arange(size, device=order.device))
    return rows[back].reshape(values.shape)


def _longest_run(places: Tensor) -> int:
    """How often the most frequent place is named; `places` are sorted."""
    order = torch.arange(places.numel(), device=places.device)
    starts = torch.cat([order.new_zeros(1), torch.where(places[1:] != places[:-1], order[1:], 0)])
    return int((order - starts.cummax(0).values).max()) + 1
