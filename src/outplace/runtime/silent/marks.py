"""Passes what marked code does to the detectors: stores in lists and contexts, indices, and writes."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import torch

from outplace.runtime.patches import tensor_writes
from outplace.runtime.record import native, untracked_aliases
from outplace.runtime.record.events import Listeners, events
from outplace.runtime.record.snapshots import PLAIN

_get_frame = sys._getframe
_mode_active = torch._C._is_torch_function_mode_enabled


def note_kept(value: Any, way: str) -> Any:
    """Called by marked code on `[x] * n`, on values appended to a list, and on values that a Function stores in ctx."""
    if not tensor_writes.is_traced():
        if way in _OF_ANYTHING:
            _OF_ANYTHING[way](value, _get_frame(1))
        elif type(value) in PLAIN:
            if _mode_active():
                with torch._C.DisableTorchFunction():  # no mode of the user may see this
                    _OF_TENSORS[way](value, _get_frame(1))
            else:
                _OF_TENSORS[way](value, _get_frame(1))
        elif way in ("append", "appendleft"):
            if isinstance(value, tuple):  # for example a namedtuple
                _append_items(tuple(value), _get_frame(1))
            elif untracked_aliases.is_array(value):
                _call(events.memory_appended, value, _get_frame(1))
    return value


def keeper() -> Callable[[Any, str], Any]:
    """The same, with the most frequent case (nothing to record) compiled, unless Dynamo traces this program."""
    if native.compiled is None or tensor_writes.is_traced is not bool:
        return note_kept
    native.compiled.connect_kept(PLAIN, _mode_active, note_kept, untracked_aliases.untracked)
    keep: Callable[[Any, str], Any] = native.compiled.keep
    return keep


def _call(listeners: Listeners, *facts: Any) -> None:
    for listener in listeners:
        listener(*facts)


def _append(tensor: torch.Tensor, frame: FrameType) -> None:
    if tensor.is_inference():
        return
    if tensor._version:
        _call(events.appended, tensor, frame)
    elif untracked_aliases.is_untracked(tensor):  # most appended values have never been written
        _call(events.memory_appended, tensor, frame)


def _append_items(value: Any, frame: FrameType) -> None:
    """A tuple, list or dict made on this line is about to be appended. Its first tensor represents all of them."""
    items = list(items_of(value))
    tensor = next((item for item in items if type(item) in PLAIN), None)
    if tensor is not None:
        with torch._C.DisableTorchFunction():  # no mode of the user may see this
            _append(tensor, frame)
        return
    array = next((item for item in items if untracked_aliases.is_array(item)), None)
    if array is not None:
        _call(events.memory_appended, array, frame)


def items_of(holder: Any) -> Iterable[Any]:
    """The entries of a list, tuple, deque or dict."""
    kind = type(holder)
    return holder.values() if kind is dict else holder if kind in (list, tuple, deque) else ()


def _multiply(made: Any, frame: FrameType) -> None:
    if type(made) is list and len(made) > 1 and made[0] is made[1] and type(made[0]) in PLAIN:
        _call(events.repeated, made[0])


_OF_ANYTHING: dict[str, Callable[[Any, FrameType], None]] = {
    "items": _append_items,
    "list": _multiply,
    "copy to": lambda value, frame: _call(events.copy_target, value, frame),
    "copied": lambda value, frame: _call(events.copy_source, value, frame),
    "first of a pair": lambda value, frame: _call(events.first_network, value, frame),
    "second of a pair": lambda value, frame: _call(events.second_network, value, frame),
}
_OF_TENSORS: dict[str, Callable[[Any, FrameType], None]] = {
    "append": _append,
    "appendleft": _append,
    "fromkeys": lambda value, frame: _call(events.repeated, value),
    "ctx": lambda value, frame: _call(events.kept_in_ctx, value, frame),
    "grad": lambda value, frame: _call(events.gradient_assigned, value, frame),
}
"""By the word that the marker puts into the source."""


def note_index(index: Any) -> Any:
    """Called by marked code on the index of `y[index] += v`."""
    if not tensor_writes.is_traced():
        parts = index if type(index) is tuple else (index,)
        if any(type(part) is torch.Tensor for part in parts):
            frame = _get_frame(1)
            _call(events.indexed, parts, (frame.f_code, frame.f_lasti))
    return index


def note_pair(value: Any, other: Any) -> Any:
    """Called by marked code on two values that meet: `value - other`, or both in a loss. Returns the first."""
    if type(value) in PLAIN and type(other) in PLAIN and not tensor_writes.is_traced() and not _mode_active():
        try:
            meets = value is other or value.data_ptr() == other.data_ptr()
        except RuntimeError:  # inside a transform of `torch.func`, or without memory
            return value
        if meets:
            _call(events.compared, value, other, _get_frame(1))
    return value


def note_owner(owner: Any, name: str) -> Any:
    """Called by marked code on the `layer` of a statement that writes into `layer.weight`."""
    if not tensor_writes.is_traced() and isinstance(owner, torch.nn.Module):
        frame = _get_frame(1)
        _call(events.owner, owner, name, (frame.f_code, frame.f_lasti))
    return owner
