"""Reads an index, as `x[index] = v` does, into its two parts: a view of x, and index tensors into that view.

Ints, slices, None and Ellipsis choose a view (`x[view]`); tensors, masks and lists then choose elements of it. torch
takes the two steps in this order, also where numpy does not (`x[0, :, [0, 1]]`).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from outplace.updates import mode

FULL = slice(None)


class Index:
    """`x[index]` in two steps: `x[view]`, and in it `tensors`: an index tensor or None for each of its dimensions.

    A mask over n dimensions is at the first of them, with None at the others. `whole` says that the view is all of x.
    """

    __slots__ = ("tensors", "view", "whole")

    def __init__(self, view: tuple[Any, ...], tensors: list[Tensor | None]) -> None:
        self.view, self.tensors = view, tensors
        self.whole = all(isinstance(item, slice) and item == FULL for item in view)

    def items(self, shape: Sequence[int]) -> list[Tensor | None]:
        """The index tensors as `x[...]` takes them: one item for all dimensions of a mask."""
        items: list[Tensor | None] = []
        dim = 0
        while dim < len(self.tensors):
            tensor = self.tensors[dim]
            rank = 1
            if tensor is not None and tensor.dtype is torch.bool:
                rank = tensor.dim()
                tensor = tensor.expand(*shape[dim : dim + rank])
            items.append(tensor)
            dim += rank
        return items


def parse(index: Any, x: Tensor) -> Index:
    """The parsed index; raises IndexError with the axis, its size and the index where it does not fit x."""
    items = _expanded([_read(item, x) for item in _items(index)], x)
    view: list[Any] = []
    tensors: list[Tensor | None] = []
    axis = 0
    for item in items:
        if item is None:
            view.append(None)
            tensors.append(None)
        elif isinstance(item, slice):
            view.append(_checked_slice(item, axis))
            tensors.append(None)
            axis += 1
        elif not isinstance(item, Tensor):
            view.append(_checked_int(item, axis, x))
            axis += 1
        elif item.dtype is not torch.bool:
            view.append(FULL)
            tensors.append(item)
            axis += 1
        elif item.dim() == 0:  # a mask over no dimension: it decides about a new one of size 1
            view.append(None)
            tensors.append(item.reshape(1))
        else:
            _check_mask(item, axis, x, alone=len(items) == 1)
            view += [FULL] * item.dim()
            tensors += [item] + [None] * (item.dim() - 1)
            axis += item.dim()
    return Index(tuple(view), tensors)


def _items(index: Any) -> list[Any]:
    if isinstance(index, tuple):
        return list(index)
    if isinstance(index, list) and any(_makes_a_tuple(item) for item in index):
        return index  # as torch does: a list with slices, lists or tensors in it is meant as a tuple
    return [index]


def _makes_a_tuple(item: Any) -> bool:
    return item is None or item is Ellipsis or isinstance(item, (slice, Tensor, list, tuple))


def _read(item: Any, x: Tensor) -> Any:
    """One element of the index as an int, slice, None, Ellipsis, or a tensor of bool or integers on x's device."""
    if item is None or item is Ellipsis or type(item) is int or isinstance(item, (slice, torch.SymInt)):
        return item  # an int first: of one that torch.compile takes as dynamic, nothing else can be asked
    if isinstance(item, bool):
        return torch.tensor(item, device=x.device)
    if not isinstance(item, Tensor):
        if hasattr(item, "__index__") and not hasattr(item, "__len__"):
            return operator.index(item)
        item = _tensor_of(item, x.device)
    if item.dtype is torch.uint8:  # torch's old masks
        item = item.bool()
    if item.dtype is not torch.bool:
        if item.is_floating_point() or item.is_complex():
            raise IndexError(f"an index must be of integers or bools, not {str(item.dtype).removeprefix('torch.')}")
        if item.dtype not in (torch.int32, torch.int64):
            item = item.long()
    if item.device == x.device:
        return item
    return int(item) if item.is_cpu and _is_number(item) and mode.looks_at_values(item) else item.to(x.device)


def _tensor_of(item: Any, device: torch.device) -> Tensor:
    try:
        tensor = torch.as_tensor(list(item) if isinstance(item, range) else item, device=device)
    except (TypeError, ValueError, RuntimeError):
        raise IndexError(
            f"{item!r} is no index; use ints, slices, None, Ellipsis, masks, and lists or tensors of integers"
        ) from None
    return tensor.long() if tensor.numel() == 0 and tensor.is_floating_point() else tensor


def _expanded(items: list[Any], x: Tensor) -> list[Any]:
    """The items with a full slice for each axis that they leave out, and with 0-d integers as ints where it matters."""
    axes = sum(_axes(item) for item in items)
    if axes > x.dim():
        raise IndexError(f"too many indices: x has {x.dim()} dimensions, but {axes} are indexed")
    ellipses = [place for place, item in enumerate(items) if item is Ellipsis]
    place = ellipses[0] if ellipses else len(items)
    rest = [item for item in items[place:] if item is not Ellipsis]  # torch takes more than one, and the first counts
    items = items[:place] + [FULL] * (x.dim() - axes) + rest
    places = [place for place, item in enumerate(items) if isinstance(item, Tensor)]
    numbers = [items[place] for place in places if _is_number(items[place])]
    # torch takes a 0-d integer as an int, before all index tensors. Among its like it can as well stay a tensor, which
    # no one has to wait for, and next to others, too, where its value cannot be looked at.
    if len(numbers) in (0, len(places)) or (_neighbours(items, places) and not mode.looks_at_values(*numbers)):
        return items
    return [int(item) if _is_number(item) else item for item in items]


def _neighbours(items: list[Any], places: list[int]) -> bool:
    return not any(item is None or isinstance(item, slice) for item in items[places[0] : places[-1]])


def _axes(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    return item.dim() if isinstance(item, Tensor) and item.dtype is torch.bool else 1


def _is_number(item: Any) -> bool:
    return isinstance(item, Tensor) and item.dim() == 0 and item.dtype is not torch.bool


def _checked_int(item: Any, axis: int, x: Tensor) -> Any:
    size = x.shape[axis]
    if not -size <= item < size:
        raise IndexError(f"index {item} is out of bounds for axis {axis} with size {size}")
    return item


def _checked_slice(item: slice, axis: int) -> slice:
    if item.step is not None and item.step <= 0:
        raise ValueError(f"the step of the slice for axis {axis} is {item.step}; tensors have only steps above zero")
    return item


def _check_mask(mask: Tensor, axis: int, x: Tensor, alone: bool) -> None:
    if alone and mask.dim() == x.dim():
        if all(m in (1, n) for m, n in zip(mask.shape, x.shape, strict=True)):
            return
    elif mask.shape == x.shape[axis : axis + mask.dim()]:
        return
    for offset, size in enumerate(mask.shape):
        if size != x.shape[axis + offset]:
            raise IndexError(
                f"the mask does not fit: it has size {size} along its axis {offset}, "
                f"and x has size {x.shape[axis + offset]} along axis {axis + offset}"
            )


def extent(item: slice, size: int) -> tuple[int, int, int]:
    """`item.indices(size)`, which not every Dynamo knows; a slice that ends before it starts, ends where it starts."""
    start, stop, step = item.start, item.stop, item.step
    if step is None:
        step = 1
    elif step <= 0:
        raise ValueError(f"the step of a slice is {step}; tensors have only steps above zero")
    if start is None:
        start = 0
    elif start < 0:
        start = max(start + size, 0)
    elif start > size:
        start = size
    if stop is None or stop > size:
        stop = size
    elif stop < 0:
        stop += size
    return start, stop if stop > start else start, step


def check_bounds(tensors: Sequence[Tensor | None], shape: Sequence[int], axis_of: Sequence[int]) -> None:
    """Raises for the first index out of range; reads the values, so call it only to explain a failure."""
    for dim, tensor in enumerate(tensors):
        if tensor is None or tensor.dtype is torch.bool:
            continue
        wrong = tensor[(tensor < -shape[dim]) | (tensor >= shape[dim])]
        if wrong.numel():
            raise IndexError(
                f"index {int(wrong[0])} is out of bounds for axis {axis_of[dim]} with size {shape[dim]}"
            ) from None
