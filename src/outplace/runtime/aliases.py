"""Aliases that write without moving a version: what `.data` hands out, and numpy arrays over a tensor's memory.

They are remembered weakly, so that a write through one of them can be told from a write that autograd sees.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from typing import Any, NamedTuple

import torch

_MOST_ARRAYS = 256

_untracked: dict[int, weakref.ref[torch.Tensor]] = {}


def remember(alias: torch.Tensor) -> None:
    """Remembers a tensor that `.data` made, for as long as it lives."""
    key = id(alias)
    _untracked[key] = weakref.ref(alias, lambda _: _untracked.pop(key, None))


def is_untracked(tensor: torch.Tensor) -> bool:
    """Was the tensor, or the one it is a view of, made by `.data`?"""
    if not _untracked:
        return False
    return _is_one(tensor) or (tensor._base is not None and _is_one(tensor._base))


def _is_one(tensor: torch.Tensor) -> bool:
    found = _untracked.get(id(tensor))
    return found is not None and found() is tensor


class _Array(NamedTuple):
    array: weakref.ref[Any]
    start: int
    stop: int
    storage: int


_arrays: deque[_Array] = deque(maxlen=_MOST_ARRAYS)


def remember_array(array: Any, tensor: torch.Tensor) -> None:
    """Remembers that a numpy array and a tensor lie in the same memory."""
    start = tensor.data_ptr()
    end = start + array.nbytes
    _arrays.append(_Array(weakref.ref(array), start, end, tensor.untyped_storage()._cdata))


def storage_under(value: Any) -> int | None:
    """The storage that a numpy array (or a view of one) writes into; None for anything else."""
    numpy: Any = sys.modules.get("numpy")
    if not _arrays or numpy is None or not isinstance(value, numpy.ndarray):
        return None
    address: int = value.__array_interface__["data"][0]
    for known in reversed(_arrays):
        if known.start <= address < known.stop and known.array() is not None:
            return int(known.storage)
    return None
