"""Updates at index tensors, with correct gradients for repeated indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from outplace.updates import mode, repeated_indices, values
from outplace.updates.arithmetic import Arithmetic

IndexTensors = Sequence[Tensor | None]
"""For each dimension of x an index tensor, or None."""


class Layout(NamedTuple):
    """Where the dimensions of the index tensors lie in `x[tensors]`."""

    shape: tuple[int, ...]
    """The shape of `x[tensors]`."""
    first: int
    """The dimension at which those of the index begin."""
    entries: tuple[int, ...]
    """The shape of the broadcast index tensors."""


def layout(x: Tensor, tensors: IndexTensors) -> Layout:
    """As in numpy and torch: in place of the indexed dimensions if these are neighbours, else in front."""
    dims = [dim for dim, tensor in enumerate(tensors) if tensor is not None]
    try:
        entries = repeated_indices.entries([tensor for tensor in tensors if tensor is not None])
    except RuntimeError:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors if tensor is not None)
        raise IndexError(f"the index tensors of shapes {shapes} do not broadcast together") from None
    rest = [size for dim, size in enumerate(x.shape) if dim not in dims]
    first = dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0
    return Layout((*rest[:first], *entries, *rest[first:]), first, entries)


def put(x: Tensor, tensors: IndexTensors, value: Any, unique: bool) -> Tensor:
    """`x[tensors] = value`; with repeated indices the last value wins and receives the gradient."""
    where = layout(x, tensors)
    value = values.broadcast(value, where.shape)
    if isinstance(value, Tensor) and not unique and mode.may_carry_gradient(value) and not _are_unique(x, tensors):
        last = repeated_indices.last_of_each(*repeated_indices.flat(tensors, x.shape))
        return _put_last(x, tensors, value, last, where)
    return _index_put(x, tensors, values.as_tensor(value, x))


def add(x: Tensor, tensors: IndexTensors, value: Any) -> Tensor:
    """`x[tensors] += value`; with repeated indices every value is added."""
    where = layout(x, tensors)
    value = values.as_tensor(values.broadcast(value, where.shape), x)
    dim, index = only(tensors)
    if index is not None and index.dim() == 1:
        return torch.index_add(x, dim, repeated_indices.from_front(index, x.shape[dim]), value.expand(where.shape))
    return _index_put(x, tensors, value, accumulate=True)


def change(x: Tensor, tensors: IndexTensors, value: Any, operation: Arithmetic, unique: bool) -> Tensor:
    """`x[tensors] = operation(x[tensors], value)`; with repeated indices once for every value."""
    where = layout(x, tensors)
    value = values.broadcast(value, where.shape)
    old = get(x, tensors)
    if unique or _are_unique(x, tensors):
        return _index_put(x, tensors, operation(old, value).to(x.dtype))
    entries, count = repeated_indices.flat(tensors, x.shape)
    last = repeated_indices.last_of_each(entries, count)
    value = values.as_tensor(value, x).expand(where.shape)
    rows = value.movedim(_dims(where), tuple(range(len(where.entries))))
    rows = repeated_indices.combined(entries.expand(where.entries), rows, operation.combine)
    value = rows.movedim(tuple(range(len(where.entries))), _dims(where))
    wins = _aligned(last, where)
    # ones for the values that do not win: an inf or nan there would reach the gradients as 0 * inf
    new = operation(torch.where(wins, old, 1), torch.where(wins, value, 1))
    return _put_last(x, tensors, new.to(x.dtype), last, where)


def get(x: Tensor, tensors: IndexTensors) -> Tensor:
    """`x[tensors]`; a mask of n dimensions is one item."""
    return torch.ops.aten.index.Tensor(x, list(tensors))  # x[...] would read the value of a 0-d tensor


def _put_last(x: Tensor, tensors: IndexTensors, value: Tensor, last: Tensor, where: Layout) -> Tensor:
    """Sets the elements to -0.0, then adds the last value for each of them, and -0.0 instead of the other values.

    -0.0 is the one number that changes no other when added, signs included. The sum is linear in the values, so
    backward and forward gradients are right: only the last values receive one.
    """
    zero = x.new_full((), -0.0)
    cleared = _index_put(x, tensors, zero)
    return _index_put(cleared, tensors, torch.where(_aligned(last, where), value, zero), accumulate=True)


def _aligned(last: Tensor, where: Layout) -> Tensor:
    last = last.expand(where.entries)
    return last.reshape(where.entries + (1,) * (len(where.shape) - where.first - len(where.entries)))


def _dims(where: Layout) -> tuple[int, ...]:
    return tuple(range(where.first, where.first + len(where.entries)))


def _are_unique(x: Tensor, tensors: IndexTensors) -> bool:
    """Is no index repeated? False if that cannot be known."""
    if all(tensor is None or tensor.numel() == 1 for tensor in tensors):
        return True
    readable = mode.looks_at_values(*(tensor for tensor in tensors if tensor is not None))
    return readable and repeated_indices.none(tensors, x.shape)


def only(tensors: IndexTensors) -> tuple[int, Tensor | None]:
    """The dimension and the tensor, if one dimension alone is indexed."""
    chosen = [(dim, tensor) for dim, tensor in enumerate(tensors) if tensor is not None]
    return chosen[0] if len(chosen) == 1 else (0, None)


def _index_put(x: Tensor, tensors: IndexTensors, value: Tensor, accumulate: bool = False) -> Tensor:
    items = list(tensors)
    while items and items[-1] is None:
        items.pop()
    if any(tensor is None for tensor in items):  # torch.index_put takes no None
        return torch.ops.aten.index_put.default(x, items, value, accumulate)
    return torch.index_put(x, tuple(items), value, accumulate)
