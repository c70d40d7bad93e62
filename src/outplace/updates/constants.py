"""Little tensors that are needed again and again, each made once: to make one takes as long as a small update.

They are never changed, and never thrown away: a CUDA graph that has read one may read it again at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from math import copysign, isfinite
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling

from outplace.updates import mode
from outplace.updates.index import extent

_MOST_NUMBERS, _MOST_PARTS = 256, 1024
_POSITIONS = 1 << 16
_FULL = slice(None)
_PLACES = frozenset((int, type(None)))
_DEVICES = frozenset(("cpu", "cuda"))
_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
"""A mode that has seen an update without what is kept (selective checkpointing) must see it so again."""
_numbers: dict[Any, Tensor] = {}
_parts: dict[Any, Tensor] = {}
_ranges: dict[torch.device, Tensor] = {}


def number(v: float, x: Tensor) -> Tensor | None:
    """The number as a tensor of x's dtype, on its device; None where the plain number is the better choice."""
    if is_compiling() or _modes() or type(x) not in mode.PLAIN or (v == 0 and copysign(1.0, v) < 0):  # -0.0 == 0.0
        return None
    key = v, x.dtype, x.device
    found = _numbers.get(key)
    if found is None and len(_numbers) < _MOST_NUMBERS and _may_keep(x):
        found = _made(lambda: torch.tensor(v, dtype=x.dtype), x.device)
        if isfinite(v) and not isfinite(found):  # too large for float16, which is torch's to say
            return None
        _numbers[key] = found
    return found


def part(size: int, item: Any, like: Tensor) -> Tensor | None:
    """The positions of an int or slice in a dimension of this size, on the tensor's device; None where it is large."""
    if _modes() or type(like) not in mode.PLAIN:
        return None
    if type(item) is slice:
        start, stop, step = item.start, item.stop, item.step
        if type(start) not in _PLACES or type(stop) not in _PLACES or type(step) not in _PLACES:
            return None
        key: tuple[Any, ...] = size, start, stop, step, like.device
    else:
        key = size, item, like.device
    found = _parts.get(key)
    if found is None and size <= _POSITIONS and _may_keep(like):
        everything, chosen = _positions(like.device), _as_slice(item, size)
        found = _made(lambda: everything[chosen], like.device)  # a view, which takes no memory
        if len(_parts) < _MOST_PARTS:
            _parts[key] = found
    return found


def positions(size: int, like: Tensor) -> Tensor | None:
    """0, 1, 2 … up to a size that is small, on the tensor's device."""
    return part(size, _FULL, like)


def _positions(device: torch.device) -> Tensor:
    found = _ranges.get(device)
    if found is None:
        found = _ranges[device] = _made(lambda: torch.arange(_POSITIONS), device)
    return found


def _as_slice(item: int | slice, size: int) -> slice:
    if isinstance(item, slice):
        return slice(*extent(item, size))
    if not -size <= item < size:
        raise IndexError(f"index {item} is out of bounds for size {size}")
    return slice(item % size, item % size + 1)


def _may_keep(like: Tensor) -> bool:
    """Nobody watches who could take what is made here for a part of his program."""
    return like.device.type in _DEVICES and mode.looks_at_values(like) and mode.seen_only_by_autograd(like)


def _made(make: Callable[[], Tensor], device: torch.device) -> Tensor:
    with torch.inference_mode(False), torch._C.DisableTorchFunction():  # neither a default device nor a mode has a say
        return make().to(device)  # from the CPU: that waits, so that every stream may read it
