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
from outplace.updates.index import shape_of_part

_MOST_NUMBERS, _MOST_PARTS = 256, 1024
_MOST_RANGES, _MOST_POSITIONS = 16, 1 << 16
_PLACES = frozenset((int, type(None)))
_DEVICES = frozenset(("cpu", "cuda"))
_numbers: dict[Any, Tensor] = {}
_parts: dict[Any, Tensor] = {}
_ranges: dict[Any, Tensor] = {}


def number(v: float, x: Tensor) -> Tensor | None:
    """The number as a tensor of x's dtype, on its device; None where the plain number is the better choice."""
    if is_compiling() or type(x) not in mode.PLAIN or (v == 0 and copysign(1.0, v) < 0):  # -0.0 == 0.0
        return None
    key = v, x.dtype, x.device
    found = _numbers.get(key)
    if found is None and len(_numbers) < _MOST_NUMBERS and _may_keep(x):
        found = _made(lambda: torch.tensor(v, dtype=x.dtype), x.device)
        if isfinite(v) and not isfinite(found):  # too large for float16, which is torch's to say
            return None
        _numbers[key] = found
    return found


def part(v: float, x: Tensor, dim: int, item: Any) -> Tensor | None:
    """The number in the shape of a part of x, an int or slice of one dimension: a view, which takes no memory."""
    if is_compiling() or type(x) not in mode.PLAIN or (v == 0 and copysign(1.0, v) < 0):
        return None
    key: tuple[Any, ...] = v, x.dtype, x.device, x.shape, dim
    if type(item) is slice:
        start, stop = item.start, item.stop
        if type(start) not in _PLACES or type(stop) not in _PLACES:
            return None
        key = *key, start, stop, item.step
    found = _parts.get(key)
    if found is None:
        single = number(v, x)
        if single is None:
            return None
        found = single.expand(shape_of_part(x.shape, dim, item))
        if len(_parts) < _MOST_PARTS and _may_keep(x):
            _parts[key] = found
    return found


def positions(size: int, index: Tensor) -> Tensor | None:
    """0, 1, 2 … up to a size that is small, on the index's device."""
    key = size, index.device
    found = _ranges.get(key)
    if found is None and size <= _MOST_POSITIONS and len(_ranges) < _MOST_RANGES and _may_keep(index):
        found = _ranges[key] = _made(lambda: torch.arange(size), index.device)
    return found


def _may_keep(like: Tensor) -> bool:
    """Nobody watches who could take what is made here for a part of his program."""
    return like.device.type in _DEVICES and mode.looks_at_values(like) and mode.seen_only_by_autograd(like)


def _made(make: Callable[[], Tensor], device: torch.device) -> Tensor:
    with torch.inference_mode(False), torch.device("cpu"):
        return make().to(device)  # from the CPU: that waits, so that every stream may read it
