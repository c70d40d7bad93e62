"""What the user calls a tensor: `net.fc2.weight`, `self.queue`, `outs[3]`.

Searches the local names of the user's frames, and from there modules, containers and attributes. It never runs the
user's code (no properties, no `__getattr__`).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from types import FrameType, TracebackType
from typing import Any

import torch
from torch.nn.utils import parametrize

from outplace.model import Tensor
from outplace.runtime.record.storages import storage_of
from outplace.runtime.record.user_files import fields_of, own_files

_LOOKED_AT = 20_000
_DEPTH = 4


def own_frames(traceback: TracebackType | None, frame: FrameType | None) -> list[FrameType]:
    """The user's frames, innermost first: those that the exception passed through, then those still running."""
    passed = []
    while traceback is not None:
        passed.append(traceback.tb_frame)
        traceback = traceback.tb_next
    running = []
    while frame is not None:
        running.append(frame)
        frame = frame.f_back
    unique = dict.fromkeys([*reversed(passed), *running])
    return [item for item in unique if own_files[item.f_code.co_filename]]


def gradient_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """The `.grad` of a leaf; None if it has none."""
    try:
        return tensor.grad if tensor.is_leaf else None
    except RuntimeError:  # a view made under no_grad whose base was written since: reading `.grad` raises
        return None


def described(tensor: torch.Tensor, name: str | None) -> Tensor:
    """A tensor in the form that a diagnosis uses."""
    try:
        shape = tuple(tensor.shape)
    except RuntimeError:  # a nested tensor
        shape = None
    return Tensor(name, shape, str(tensor.dtype).removeprefix("torch."), _local_shape(tensor))


def _local_shape(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """The shape of the part that this rank holds of a `DTensor`."""
    distributed = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
    return tuple(tensor._local_tensor.shape) if distributed and isinstance(tensor, distributed) else None


def name_in_frames(wanted: torch.Tensor, frames: Iterable[FrameType], itself: bool = False) -> str | None:
    """The shortest path from a name in these frames to the tensor.

    If there is none, and not `itself`, the path to a tensor that shares its storage.
    """
    storage = storage_of(wanted)
    alias: str | None = None
    for frame in frames:
        for path, tensor in tensors(frame):
            if tensor is wanted:
                return path
            if (
                not itself
                and alias is None
                and storage is not None
                and storage_of(tensor) == storage
                and _whole(tensor)
            ):
                alias = path
    return alias


def _whole(tensor: torch.Tensor) -> bool:
    return tensor._base is None


def tensors(frame: FrameType) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that a frame's names reach, nearest first."""
    names = dict(frame.f_globals) if frame.f_code.co_name == "<module>" else {**frame.f_locals}
    level = [(name, value) for name, value in names.items() if not name.startswith("__")]
    level.sort(key=lambda named: named[0].startswith("_"))  # a notebook calls its last results `_` and `_3`
    if frame.f_code.co_name != "<module>":
        level += [(name, value) for name, value in frame.f_globals.items() if isinstance(value, torch.nn.Module)]
    seen: set[int] = set()
    for _ in range(_DEPTH):
        deeper: list[tuple[str, Any]] = []
        for path, value in level:
            if id(value) in seen or len(seen) > _LOOKED_AT:
                continue
            seen.add(id(value))
            if isinstance(value, torch.Tensor):
                yield path, value
                yield from _gradient(path, value)
            elif isinstance(value, torch.nn.Module):
                yield from _module_tensors(path, value)
                deeper.extend(children(path, value))
            else:
                deeper.extend(children(path, value))
        level = deeper


def _module_tensors(path: str, module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for prefix, child in module.named_modules():
        cached = [(name, tensor) for (owner, name), tensor in cached_weights().items() if owner == id(child)]
        for name, tensor in (*child._parameters.items(), *child._buffers.items(), *cached):
            if tensor is not None:
                full = path + _dotted(f"{prefix}.{name}" if prefix else name)
                yield full, tensor
                yield from _gradient(full, tensor)


def cached_weights() -> dict[tuple[int, str], torch.Tensor | None]:
    """The computed weights that `parametrize.cached()` holds, by the identity of the module and the name."""
    return getattr(parametrize, "_cache", {})


def _gradient(path: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    gradient = gradient_of(tensor)
    if gradient is not None:
        yield f"{path}.grad", gradient


def _dotted(name: str) -> str:
    """`layers.0.weight` as source code: `.layers[0].weight`."""
    return "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in name.split("."))


def children(path: str, value: Any) -> list[tuple[str, Any]]:
    """The contents of a container, or of an object of the user's class, each with its path."""
    if isinstance(value, list | tuple):
        return [(f"{path}[{index}]", item) for index, item in enumerate(value[:200])]
    if type(value) is dict:
        return [(f"{path}[{key!r}]", item) for key, item in list(value.items())[:200] if isinstance(key, str | int)]
    if isinstance(value, type) or type(value).__module__ in ("builtins", "types") or isinstance(value, FrameType):
        return []
    if not _is_own(type(value)):
        return []
    return [(f"{path}.{name}", item) for name, item in fields_of(value).items() if not name.startswith("__")]


def _is_own(kind: type) -> bool:
    """Is this class the user's, or a module, whose attributes are the user's?"""
    module = __import__("sys").modules.get(kind.__module__)
    filename = getattr(module, "__file__", None) or ""
    return kind.__module__ == "__main__" or (bool(filename) and own_files[filename])


def live_tensors() -> Iterator[torch.Tensor]:
    """All plain tensors that Python's garbage collector knows."""
    for thing in gc.get_objects():
        if type(thing) is torch.Tensor or type(thing) is torch.nn.Parameter:
            yield thing
