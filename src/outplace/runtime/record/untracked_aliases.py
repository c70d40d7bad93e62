"""Untracked aliases: results of `.data`, tensors over memory of other owners, and numpy arrays.

A write through one of them does not change the version of the other tensors. They are held by weak references, so that
such a write can be told apart from a write that autograd sees.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

import torch


class Weak(weakref.ref):  # type: ignore[type-arg]
    """A weak reference of outplace to a tensor of the user (see `swap_tensors`)."""

    __slots__ = ("moment", "since", "source")

    moment: int
    since: int
    source: Weak | None


_next_number = torch._C._autograd._get_sequence_nr

untracked: dict[int, Weak] = {}


def remember(alias: torch.Tensor, since: int = -1, source: torch.Tensor | None = None) -> None:
    """Remembers, while it lives, a tensor that shares memory with others but not their version counter.

    `since` is the backward after which the alias was made. `source` is the tensor whose `.data` it is, if any.
    """
    key = id(alias)
    forget = untracked.pop  # when Python ends, tensors may outlive the names of this module
    untracked[key] = reference = Weak(alias, lambda _: forget(key, None))
    reference.since, reference.moment = since, _next_number()
    reference.source = None if source is None else Weak(source)


def source_of(alias: torch.Tensor) -> torch.Tensor | None:
    """The tensor whose `.data` this alias is, or is a view of."""
    for item in (alias, alias._base):
        found = None if item is None else untracked.get(id(item))
        if found is not None and found() is item and found.source is not None:
            return found.source()
    return None


def is_older(tensor: Any, backwards: int) -> bool:
    """Is this a result of `.data`, and did a backward run after it was made?"""
    found = untracked.get(id(tensor))
    return found is not None and found() is tensor and 0 <= found.since < backwards


def over(tensor: torch.Tensor) -> list[tuple[int, torch.Tensor]]:
    """The living aliases at the address of this tensor or of its base, by their identity."""
    starts = {_address(item) for item in (tensor, tensor._base) if item is not None} - {0, -1}
    living = ((key, reference()) for key, reference in list(untracked.items()))
    return [(key, alias) for key, alias in living if alias is not None and _address(alias) in starts]


def _address(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.data_ptr())
    except RuntimeError:  # without memory
        return -1


def made_at(alias: Any) -> int:
    """The number of the next node when this alias was made; -1 if it is no alias."""
    found = untracked.get(id(alias))
    return found.moment if found is not None and found() is alias else -1


def is_untracked(tensor: torch.Tensor) -> bool:
    """Is this tensor an untracked alias, or a view of one?"""
    if not untracked:
        return False
    return _is_one(tensor) or (tensor._base is not None and _is_one(tensor._base))


def _is_one(tensor: torch.Tensor) -> bool:
    found = untracked.get(id(tensor))
    return found is not None and found() is tensor


# -- numpy ----------------------------------------------------------------------------------------------------------

_given: dict[int, weakref.ref[Any]] = {}
"""The arrays whose memory a tensor shares (`from_numpy`), by their identity."""


def remember_array(array: Any, tensor: torch.Tensor) -> None:
    """Remembers that a tensor was made over an array's memory. Two such tensors do not share a version counter."""
    owner = owner_of(array)
    if owner is None or isinstance(owner, torch.Tensor):
        remember(tensor)  # memory of another tensor, reached through numpy
        return
    key = id(owner)
    known = _given.get(key)
    if (known is not None and known() is owner) or getattr(owner, "base", None) is not None:
        remember(tensor)
    forget = _given.pop
    _given[key] = weakref.ref(owner, lambda _: forget(key, None))


def array_in_tensor(value: Any) -> Any:
    """The numpy array that `value[i] = ...` writes, if a tensor may share its memory; else None."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return None
    kind = type(value)  # `isinstance` would read `__class__` of the object, which may run code of the user
    if not issubclass(kind, numpy.ndarray):
        value = value.base if kind is numpy.flatiter else value.obj if kind is memoryview else None
        if not isinstance(value, numpy.ndarray):
            return None
    owner = owner_of(value)
    if isinstance(owner, torch.Tensor):
        return value
    known = _given.get(id(owner))
    return value if known is not None and known() is owner else None


def is_array(value: Any) -> bool:
    """Is it a numpy array?"""
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


def owner_of(array: Any) -> Any:
    """The owner of an array's memory: another array, or a tensor.

    Of memory that has no object to follow (bytes, a capsule of dlpack), it is the first array over it.
    """
    kind = sys.modules["numpy"].ndarray
    while isinstance(array, kind) and array.base is not None and type(array.base).__weakrefoffset__:
        array = array.base
    return array
