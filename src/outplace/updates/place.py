"""`at(x)[index].set(v)`: a new tensor that is what `x` would be after `x[index] = v`.

What is common has a short way (`short`); everything else goes to `update`, which reads the index in full and explains
what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling

from outplace.updates import kernels, masks, mode, places, short, values, views
from outplace.updates.arithmetic import ADD, DIV, MAX, MIN, MUL, POW, SUB, Arithmetic
from outplace.updates.index import Index, check_bounds, parse
from outplace.updates.kernels import again

_BOOL = torch.bool
_SMALL = kernels.CPU_ELEMENTS


class at:
    """Functional updates: `at(x)[index].set(v)` is a new tensor; x stays as it is, and gradients flow to x and to v."""

    __slots__ = ("_x",)

    def __init__(self, x: Tensor) -> None:
        if not isinstance(x, Tensor):
            raise TypeError(f"outplace.at takes a tensor, not a {type(x).__name__}")
        self._x = x

    def __getitem__(self, index: Any) -> Place:
        return Place(self._x, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError("at(x) makes new tensors and changes none: instead of at(x)[i] = v, x = at(x)[i].set(v)")


class Place:
    """Some elements of a tensor, named by an index; each method returns a new tensor with the rest as it was."""

    __slots__ = ("_index", "_x")

    def __init__(self, x: Tensor, index: Any) -> None:
        self._x, self._index = x, index

    def set(self, v: Any, *, unique_indices: bool = False) -> Tensor:
        """`x[index] = v`. Where a place is named more than once, one of the values counts and has the gradient.

        Where a gradient can flow to v that is the last one, otherwise torch chooses. `unique_indices=True` promises
        that no place is named twice, and saves the time to find out.
        """
        x, index = self._x, self._index
        by_kernel = x.is_cuda and not is_compiling()
        how = again.SET_UNIQUE if unique_indices and _names_rows(index) else again.SET
        done = again.lookup(x, index, v, how) if by_kernel else None
        if done is not None:
            return done
        kind = type(index)
        if kind is Tensor and index.dtype is _BOOL:
            if not by_kernel and (x.is_cuda or x.numel() < _SMALL):
                done = short.set_small(x, index, v)
            if done is None:
                done = short.set_mask(x, index, v)
        elif kind is Tensor:
            done = short.set_places(x, index, v, unique_indices)
        elif kind is slice or kind is int:
            done = short.set_item(x, 0, index, v, index)
        elif kind is tuple:
            done = short.set_view(x, index, v)
        elif kind in short.BASIC:
            done = short.set_view(x, (index,), v)
        return update(x, index, v, None, unique_indices) if done is None else done

    def add(self, v: Any) -> Tensor:
        """`x[index] += v`; where a place is named more than once, every value is added."""
        x, index = self._x, self._index
        if x.is_cuda and not is_compiling():
            done = again.lookup(x, index, v, again.ADD)
            if done is not None:
                return done
        done = short.add_places(x, index, v) if type(index) is Tensor else None
        return update(x, index, v, ADD) if done is None else done

    def sub(self, v: Any) -> Tensor:
        """`x[index] -= v`; where a place is named more than once, every value is subtracted."""
        return update(self._x, self._index, v, SUB)

    def mul(self, v: Any, *, unique_indices: bool = False) -> Tensor:
        """`x[index] *= v`; where a place is named more than once, it is multiplied by every value."""
        return update(self._x, self._index, v, MUL, unique_indices)

    def div(self, v: Any, *, unique_indices: bool = False) -> Tensor:
        """`x[index] /= v`; where a place is named more than once, it is divided by every value."""
        return update(self._x, self._index, v, DIV, unique_indices)

    def pow(self, v: Any, *, unique_indices: bool = False) -> Tensor:
        """`x[index] **= v`; where a place is named more than once, it is raised to the product of the values."""
        return update(self._x, self._index, v, POW, unique_indices)

    def min(self, v: Any, *, unique_indices: bool = False) -> Tensor:
        """The smaller of x and v; where a place is named more than once, the smallest. Ties share the gradient."""
        return update(self._x, self._index, v, MIN, unique_indices)

    def max(self, v: Any, *, unique_indices: bool = False) -> Tensor:
        """The larger of x and v; where a place is named more than once, the largest. Ties share the gradient."""
        return update(self._x, self._index, v, MAX, unique_indices)

    def apply(self, fn: Callable[[Tensor], Tensor], *, unique_indices: bool = False) -> Tensor:
        """`x[index] = fn(x[index])`; fn is called once, with a copy of `x[index]`."""
        return self.set(fn(self.get()), unique_indices=unique_indices)

    def get(self) -> Tensor:
        """A copy of `x[index]`."""
        x = self._x
        index = parse(self._index, x)
        part = x[index.view]
        if not any(place is not None for place in index.places):
            return part.clone()
        if part.numel() == 0:
            _explain(index, part)
        try:
            return places.get(part, index.items(part.shape))
        except IndexError:
            _explain(index, part)
            raise

    def __repr__(self) -> str:
        return f"at(<{str(self._x.dtype).removeprefix('torch.')}{list(self._x.shape)}>)[{self._index!r}]"


def update(x: Tensor, index: Any, v: Any, operation: Arithmetic | None, unique: bool = False) -> Tensor:
    """A copy of x with v, or `operation(x, v)`, at the index."""
    parsed = parse(index, x)
    value = values.fitted(v, x)
    if operation is DIV and not (x.is_floating_point() or x.is_complex()):
        raise TypeError(f"a quotient would be lost in a {str(x.dtype).removeprefix('torch.')} tensor; convert x first")
    part = x if parsed.whole else x[parsed.view]
    chosen = [(dim, place) for dim, place in enumerate(parsed.places) if place is not None]
    if not chosen:
        value = values.broadcast(value, part.shape)
        return views.replaced(x, parsed.view, value if operation is None else operation(part, value).to(x.dtype))
    if part.numel() == 0:  # there ATen lets wrong indices pass
        _explain(parsed, part)
    try:
        if len(chosen) == 1 and chosen[0][1].dtype is _BOOL:
            dim, mask = chosen[0]
            part = _at_mask(part, mask, dim, value, operation)
        else:
            part = _at_places(part, _integers(parsed.places), value, operation, unique)
    except (IndexError, RuntimeError):
        _explain(parsed, part)
        raise
    return part if parsed.whole else views.replaced(x, parsed.view, part)


def _names_rows(index: Any) -> bool:
    return type(index) is Tensor and index.dtype is not _BOOL


def _explain(parsed: Index, part: Tensor) -> None:
    """Raises for an index out of range, if it can be looked at."""
    if not part.is_cuda and mode.looks_at_values(*(place for place in parsed.places if place is not None)):
        check_bounds(parsed.places, part.shape, _axes(parsed))


def _at_mask(x: Tensor, mask: Tensor, dim: int, value: Any, operation: Arithmetic | None) -> Tensor:
    if operation is None:
        return masks.put(x, mask, dim, value)
    return masks.change(x, mask, dim, value, operation)


def _at_places(x: Tensor, at_: places.Places, value: Any, operation: Arithmetic | None, unique: bool) -> Tensor:
    if operation is None:
        return places.put(x, at_, value, unique)
    if operation is ADD:
        return places.add(x, at_, value)
    if operation is SUB:
        return places.add(x, at_, -values.as_tensor(value, x))
    return places.change(x, at_, value, operation, unique)


def _integers(chosen: places.Places) -> places.Places:
    """The places with each mask as the index tensors that name its True elements."""
    result: list[Tensor | None] = []
    for dim, place in enumerate(chosen):
        if place is not None and place.dtype is _BOOL:
            result += place.nonzero(as_tuple=True)
        elif dim >= len(result):  # the dimensions after a mask's first are already there
            result.append(place)
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
