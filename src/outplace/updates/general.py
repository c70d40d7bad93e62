"""Updates at any index, with any value: the index is read in full, and what is wrong with it is explained."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from outplace.updates import index_tensors, masks, mode, values, views
from outplace.updates.arithmetic import ADD, DIV, SUB, Arithmetic
from outplace.updates.index import Index, check_bounds, parse
from outplace.updates.index_tensors import IndexTensors

_BOOL = torch.bool


def update(x: Tensor, index: Any, v: Any, operation: Arithmetic | None, unique: bool = False) -> Tensor:
    """A copy of x with v, or `operation(x, v)`, at the index."""
    parsed = parse(index, x)
    value = values.fitted(v, x)
    if operation is DIV and not (x.is_floating_point() or x.is_complex()):
        raise TypeError(f"a quotient would be lost in a {str(x.dtype).removeprefix('torch.')} tensor; convert x first")
    part = x if parsed.whole else x[parsed.view]
    chosen = [(dim, tensor) for dim, tensor in enumerate(parsed.tensors) if tensor is not None]
    if not chosen:
        value = values.broadcast(value, part.shape)
        return views.replaced(x, parsed.view, value if operation is None else operation(part, value).to(x.dtype))
    if part.numel() == 0:  # ATen accepts any index there
        _explain(parsed, part)
    try:
        if len(chosen) == 1 and chosen[0][1].dtype is _BOOL:
            dim, mask = chosen[0]
            part = _at_mask(part, mask, dim, value, operation)
        else:
            part = _at_index_tensors(part, _integers(parsed.tensors), value, operation, unique)
    except (IndexError, RuntimeError):
        _explain(parsed, part)
        raise
    return part if parsed.whole else views.replaced(x, parsed.view, part)


def get(x: Tensor, index: Any) -> Tensor:
    """A copy of `x[index]`."""
    parsed = parse(index, x)
    part: Tensor = x[parsed.view]
    if all(tensor is None for tensor in parsed.tensors):
        return part.clone()
    if part.numel() == 0:
        _explain(parsed, part)
    try:
        return index_tensors.get(part, parsed.items(part.shape))
    except IndexError:
        _explain(parsed, part)
        raise


def _explain(parsed: Index, part: Tensor) -> None:
    """Raises IndexError if an index is out of range and its values may be read."""
    if not part.is_cuda and mode.looks_at_values(*(tensor for tensor in parsed.tensors if tensor is not None)):
        check_bounds(parsed.tensors, part.shape, _axes(parsed))


def _at_mask(x: Tensor, mask: Tensor, dim: int, value: Any, operation: Arithmetic | None) -> Tensor:
    if operation is None:
        return masks.put(x, mask, dim, value)
    return masks.change(x, mask, dim, value, operation)


def _at_index_tensors(
    x: Tensor, tensors: IndexTensors, value: Any, operation: Arithmetic | None, unique: bool
) -> Tensor:
    if operation is None:
        return index_tensors.put(x, tensors, value, unique)
    if operation is ADD:
        return index_tensors.add(x, tensors, value)
    if operation is SUB:
        return index_tensors.add(x, tensors, -values.as_tensor(value, x))
    return index_tensors.change(x, tensors, value, operation, unique)


def _integers(tensors: IndexTensors) -> IndexTensors:
    """The index tensors, with each mask replaced by the index tensors of its True elements."""
    result: list[Tensor | None] = []
    for dim, tensor in enumerate(tensors):
        if tensor is not None and tensor.dtype is _BOOL:
            result += tensor.nonzero(as_tuple=True)
        elif dim >= len(result):  # a mask over n dimensions has already filled the n - 1 after its first
            result.append(tensor)
    return result


def _axes(parsed: Index) -> list[int]:
    """For each dimension of the view the axis of x that it comes from."""
    axes: list[int] = []
    axis = 0
    for item in parsed.view:
        if item is None or isinstance(item, slice):
            axes.append(axis)
        axis += item is not None
    return axes
