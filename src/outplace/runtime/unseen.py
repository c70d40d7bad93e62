"""The ways to write a tensor that autograd cannot see, each noted where it is called.

What `.data` hands out, arrays over a tensor's memory, storages, batch norm's running statistics, collectives, the calls
that put a version back: none of them moves a version. Library functions are hooked inside their own code, so that they
stay the objects they are, and Dynamo, TorchScript and `__torch_function__` see no difference.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch

from outplace.runtime import aliases, silent, writes
from outplace.runtime.memory import Patch
from outplace.runtime.record import Write, frames_to_own_code

_get_frame = sys._getframe
_next_number = torch._C._autograd._get_sequence_nr


# -- .data ----------------------------------------------------------------------------------------------------------


class DataAttribute:
    """Stands in `torch.Tensor` for `data`: remembers the alias it hands out, and notes `x.data = y`."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def __get__(self, tensor: Any, owner: type | None = None) -> Any:
        if tensor is None:
            return self._original
        alias = self._original.__get__(tensor, owner)
        if not writes.is_traced() and type(alias) is torch.Tensor:
            aliases.remember(alias)
        return alias

    def __set__(self, tensor: Any, value: Any) -> None:
        if writes.is_traced():
            self._original.__set__(tensor, value)
            return
        frames = frames_to_own_code(_get_frame(1))
        sampled = bool(frames) and silent.worth_a_look(frames[-1])
        before = self._original.__get__(tensor) if sampled and silent.affords(tensor) else None
        self._original.__set__(tensor, value)
        if before is not None:
            patch = Patch.other_memory(before, tensor)
            silent.note_hidden(Write(0, None, _next_number(), ".data =", frames, None, False), tensor, patch)

    def __delete__(self, tensor: Any) -> None:
        self._original.__delete__(tensor)


# -- numpy ----------------------------------------------------------------------------------------------------------


def note_array(value: Any) -> Any:
    """Called by marked code on what an item assignment writes into: numpy arrays may lie over a tensor."""
    if not writes.is_traced():
        array = aliases.array_in_tensor(value)
        if array is not None:
            frame = _get_frame(1)
            place = ((frame.f_code, frame.f_lasti),)
            if silent.worth_a_look(place[0]):
                write = Write(0, None, _next_number(), silent.ARRAY, place, None, False)
                silent.note_hidden(write, _tensor_over(array))
    return value


def _tensor_over(array: Any) -> torch.Tensor | None:
    """A tensor of our own over an array's memory, to copy it and to know its place."""
    try:
        return _FROM_NUMPY(array)
    except (TypeError, ValueError):  # an array that runs backwards, or holds what torch does not know
        return None


_FROM_NUMPY: Any = torch.from_numpy


def _make_taker(original: Any) -> Any:
    """For functions that make a tensor over memory that exists already."""

    @functools.wraps(original)
    def taker(*args: Any, **kwargs: Any) -> Any:
        tensor = original(*args, **kwargs)
        if not writes.is_traced() and args and type(tensor) is torch.Tensor and tensor is not args[0]:
            _remember(args[0], tensor)
        return tensor

    return taker


def _remember(source: Any, tensor: torch.Tensor) -> None:
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(source, numpy.ndarray):
        if source.__array_interface__["data"][0] == tensor.data_ptr():
            aliases.remember_array(source, tensor)
    elif isinstance(source, torch.Tensor) and tensor._base is None and source.data_ptr() == tensor.data_ptr():
        aliases.remember(tensor)  # dlpack


# -- calls ----------------------------------------------------------------------------------------------------------


class _Set(writes.WritingMethod):
    """`x.set_(y)`: from now on x writes y's memory, with a version of its own."""

    __slots__ = ()

    def __get__(self, tensor: Any, owner: type | None = None) -> Any:
        if tensor is not None and not writes.is_traced():
            aliases.remember(tensor)
        return super().__get__(tensor, owner)


def install() -> None:
    """Starts seeing what autograd cannot."""
    writes.on_hidden = silent.note_hidden
    writes.replace(torch.Tensor, "data", DataAttribute(torch.Tensor.data))
    writes.replace(torch.Tensor, "set_", _Set("set_", torch.Tensor.set_))
    for name in ("from_numpy", "as_tensor", "asarray", "frombuffer", "from_dlpack"):
        writes.replace(torch, name, _make_taker(getattr(torch, name)))
    writes.replace(torch.utils.dlpack, "from_dlpack", torch.from_dlpack)
