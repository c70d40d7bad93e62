"""Repeated indices: which value wins, and how several values are combined.

All but `none` is made of sorts, scatters and scans, without branches, so it traces, batches and differentiates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from outplace.updates import mode

try:
    import numpy
except ImportError:  # torch does not need it
    numpy = None  # type: ignore[assignment]

_FEW = 1 / 64
"""Up to this share of all elements, the entries are sorted; above it, they are marked in a tensor of all elements."""


def from_front(index: Tensor, size: int) -> Tensor:
    """The index with negative entries counted from the front; entries out of range stay out of range."""
    return torch.sub(index, index >> (63 if index.dtype is torch.int64 else 31), alpha=size)


def flat(tensors: Sequence[Tensor | None], shape: Sequence[int]) -> tuple[Tensor, int]:
    """Each entry of the broadcast index tensors as one number, and how many numbers there are."""
    total: Tensor | None = None
    count = 1
    for tensor, size in zip(tensors, shape, strict=False):
        if tensor is None:
            continue
        tensor = from_front(tensor.long(), size)
        total = tensor if total is None else total * size + tensor
        count *= size
    assert total is not None
    return total, count


def entries(index: Sequence[Tensor]) -> tuple[int, ...]:
    """The shape of the index tensors, broadcast together."""
    return tuple(index[0].shape if len(index) == 1 else torch.broadcast_shapes(*(tensor.shape for tensor in index)))


def none(tensors: Sequence[Tensor | None], shape: Sequence[int]) -> bool:
    """Is no index repeated? Reads the values."""
    chosen = [(tensor, shape[dim]) for dim, tensor in enumerate(tensors) if tensor is not None]
    index = tuple(tensor for tensor, _ in chosen)
    sizes = [size for _, size in chosen]
    wide = entries(index)
    if math.prod(wide) < math.prod(sizes) * _FEW:
        ordered = flat(tensors, shape)[0].reshape(-1).sort().values
        return bool((ordered[1:] != ordered[:-1]).all())
    if numpy is not None and all(tensor.is_cpu for tensor in index):  # four times as fast as torch
        marked = numpy.zeros(sizes, dtype=bool)
        marked[tuple(tensor.numpy() for tensor in index)] = True
        return int(numpy.count_nonzero(marked)) == math.prod(wide)
    marks = torch.zeros(sizes, dtype=torch.bool, device=index[0].device)
    marks[index] = True
    return int(marks.count_nonzero()) == math.prod(wide)


def last_of_each(entries: Tensor, count: int) -> Tensor:
    """True at the last of equal entries; entries as `flat` gives them."""
    order = torch.arange(entries.numel(), device=entries.device)
    latest = torch.zeros(count, dtype=torch.long, device=entries.device)
    latest = latest.scatter_reduce(0, entries.reshape(-1), order, "amax")
    return (latest[entries.reshape(-1)] == order).reshape(entries.shape)


def combined(entries: Tensor, values: Tensor, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """At the last of equal entries: the values of all of them, combined; elsewhere any of them.

    `values` has the shape of `entries` and then its own. The entries are sorted, and equal ones are scanned: after
    the step of width w each value combines up to 2 w entries that end with it.
    """
    size = entries.numel()
    if size < 2:
        return values
    rows = values.reshape(size, *values.shape[entries.dim() :])
    ordered, order = torch.sort(entries.reshape(-1), stable=True)
    rows = rows[order]
    wide = (size,) + (1,) * (rows.dim() - 1)
    width = 1
    longest = _longest_run(ordered) if mode.looks_at_values(ordered) else size
    while width < longest:
        same = torch.cat([ordered.new_zeros(width, dtype=torch.bool), ordered[width:] == ordered[:-width]]).reshape(
            wide
        )
        earlier = torch.constant_pad_nd(rows[:-width], (0, 0) * (rows.dim() - 1) + (width, 0), 1)
        # ones where nothing is combined: an inf or nan of another entry would reach the gradients as 0 * inf
        rows = torch.where(same, combine(torch.where(same, earlier, 1), rows), rows)
        width *= 2
    back = torch.empty_like(order).scatter(0, order, torch.arange(size, device=order.device))
    return rows[back].reshape(values.shape)


def _longest_run(ordered: Tensor) -> int:
    """How often the most frequent entry occurs; the entries are sorted."""
    order = torch.arange(ordered.numel(), device=ordered.device)
    starts = torch.cat([order.new_zeros(1), torch.where(ordered[1:] != ordered[:-1], order[1:], 0)])
    return int((order - starts.cummax(0).values).max()) + 1
