"""`at(x)[index].set(v)`: a new tensor, equal to `x` after `x[index] = v`.

Common updates take a fast path. Everything else goes to `general.update`, which reads the index in full and explains
what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from outplace.updates import fast_paths, general
from outplace.updates.arithmetic import ADD, DIV, MAX, MIN, MUL, POW, SUB

_BOOL = torch.bool


class at:
    """Functional updates: `at(x)[index].set(v)` is a new tensor; x stays as it is, and gradients flow to x and to v."""

    __slots__ = ("_x",)

    def __init__(self, x: Tensor) -> None:
        if not isinstance(x, Tensor):
            raise TypeError(f"outplace.at takes a tensor, not a {type(x).__name__}")
        self._x = x

    def __getitem__(self, index: Any) -> AtIndex:
        return AtIndex(self._x, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError("at(x) makes new tensors and changes none: instead of at(x)[i] = v, x = at(x)[i].set(v)")


class AtIndex:
    """`at(x)[index]`: each method returns a new tensor, equal to x outside the index."""

    __slots__ = ("_index", "_x")

    def __init__(self, x: Tensor, index: Any) -> None:
        self._x, self._index = x, index

    def set(self, v: Any, *, unique_indices: bool = False) -> Tensor:
        """`x[index] = v`. With repeated indices one of the values wins, and only it receives a gradient.

        If a gradient can flow to v, the last value wins; otherwise torch chooses. `unique_indices=True` promises that
        no index is repeated, which saves the search for repeated ones.
        """
        x, index = self._x, self._index
        kind = type(index)
        result = None
        try:
            if kind is Tensor:
                if index.dtype is _BOOL:
                    result = fast_paths.set_mask(x, index, v)
                else:
                    result = fast_paths.set_rows(x, index, v, unique_indices)
            elif kind is slice or kind is int:
                result = fast_paths.set_part(x, 0, index, v)
            elif kind is tuple:
                result = fast_paths.set_view(x, index, v)
        except fast_paths.REFUSED_BY_ATEN:
            result = None  # the general path moves the index to x's device, or explains the error
        return general.update(x, index, v, None, unique_indices) if result is None else result

    def add(self, v: Any) -> Tensor:
        """`x[index] += v`; with repeated indices every value is added."""
        x, index = self._x, self._index
        result = None
        if type(index) is Tensor:
            try:
                result = fast_paths.add_rows(x, index, v)
            except fast_paths.REFUSED_BY_ATEN:
                result = None
        return general.update(x, index, v, ADD) if result is None else result

    def sub(self, v: Any) -> Tensor:
        """`x[index] -= v`; with repeated indices every value is subtracted."""
        return general.update(self._x, self._index, v, SUB)

    def mul(self, v: Any, *, unique_indices: bool = False) -> Tensor:
        """`x[index] *= v`; with repeated indices the element is multiplied by every value."""
        return general.update(self._x, self._index, v, MUL, unique_indices)

    def div(self, v: Any, *, unique_indices: bool = False) -> Tensor:
        """`x[index] /= v`; with repeated indices the element is divided by every value."""
        return general.update(self._x, self._index, v, DIV, unique_indices)

    def pow(self, v: Any, *, unique_indices: bool = False) -> Tensor:
        """`x[index] **= v`; with repeated indices the element is raised to the product of the values."""
        return general.update(self._x, self._index, v, POW, unique_indices)

    def min(self, v: Any, *, unique_indices: bool = False) -> Tensor:
        """The smaller of x and v; with repeated indices the smallest. Ties share the gradient."""
        return general.update(self._x, self._index, v, MIN, unique_indices)

    def max(self, v: Any, *, unique_indices: bool = False) -> Tensor:
        """The larger of x and v; with repeated indices the largest. Ties share the gradient."""
        return general.update(self._x, self._index, v, MAX, unique_indices)

    def apply(self, fn: Callable[[Tensor], Tensor], *, unique_indices: bool = False) -> Tensor:
        """`x[index] = fn(x[index])`; fn is called once, with a copy of `x[index]`."""
        return self.set(fn(self.get()), unique_indices=unique_indices)

    def get(self) -> Tensor:
        """A copy of `x[index]`."""
        return general.get(self._x, self._index)

    def __repr__(self) -> str:
        return f"at(<{str(self._x.dtype).removeprefix('torch.')}{list(self._x.shape)}>)[{self._index!r}]"
