"""Aliases that write without moving a version: what `.data` hands out, tensors over the memory of others, numpy arrays.

They are remembered weakly, so that a write through one of them can be told from a write that autograd sees.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

import torch


class Weak(weakref.ref):  # type: ignore[type-arg]
    """A weak reference to a tensor of the user's, known to be ours (see `swaps`)."""

    __slots__ = ("since", "source")

    since: int
    source: Weak | None


untracked: dict[int, Weak] = {}


def remember(alias: torch.Tensor, since: int = -1, source: torch.Tensor | None = None) -> None:
    """Remembers a tensor that shares memory with others but not their version, for as long as it lives.

    `since` says after which backward it was made, and `source` of what, where it is one that `.data` handed out.
    """
    key = id(alias)
    untracked[key] = reference = Weak(alias, lambda _: untracked.pop(key, None))
    reference.since = since
    reference.source = None if source is None else Weak(source)


def source_of(alias: torch.Tensor) -> torch.Tensor | None:
    """Whose `.data` it is, or is a view of."""
    for one in (alias, alias._base):
        found = None if one is None else untracked.get(id(one))
        if found is not None and found() is one and found.source is not None:
            return found.source()
    return None


def is_older(tensor: Any, backwards: int) -> bool:
    """Was this handed out by `.data`, and has there been a backward since?"""
    found = untracked.get(id(tensor))
    return found is not None and found() is tensor and 0 <= found.since < backwards


def is_untracked(tensor: torch.Tensor) -> bool:
    """Is the tensor, or the one it is a view of, such an alias?"""
    if not untracked:
        return False
    return _is_one(tensor) or (tensor._base is not None and _is_one(tensor._base))


def _is_one(tensor: torch.Tensor) -> bool:
    found = untracked.get(id(tensor))
    return found is not None and found() is tensor


# -- numpy ----------------------------------------------------------------------------------------------------------

_given: dict[int, weakref.ref[Any]] = {}
"""Arrays whose memory torch has taken over (`from_numpy`), by their identity."""


def remember_array(array: Any, tensor: torch.Tensor) -> None:
    """Remembers that a tensor was made over an array's memory. If it is not the first one, none sees the others."""
    owner = owner_of(array)
    if owner is None or isinstance(owner, torch.Tensor):
        remember(tensor)  # memory of another tensor, on a way round through numpy
        return
    key = id(owner)
    known = _given.get(key)
    if known is not None and known() is owner:
        remember(tensor)
    _given[key] = weakref.ref(owner, lambda _: _given.pop(key, None))


def array_in_tensor(value: Any) -> Any:
    """The numpy array that is written when an item of `value` is, if a tensor may lie over it; None for all else."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return None
    kind = type(value)  # `isinstance` would ask an object for its `__class__`, which may be code of the user's
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
    """Is it an array of numpy's?"""
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


def owner_of(array: Any) -> Any:
    """Whose memory an array lies in: another array's, a tensor's."""
    kind = sys.modules["numpy"].ndarray
    while isinstance(array, kind) and array.base is not None:
        array = array.base
    return array
