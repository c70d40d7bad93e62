"""Small constant tensors that are made once: making one takes as long as a small update.

They are never changed, and never freed: a CUDA graph that has read one may read it again at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from math import copysign

import torch
from torch import Tensor
from torch.compiler import is_compiling

from outplace.updates import mode, values

_MOST_NUMBERS, _MOST_RANGES, _MOST_POSITIONS = 256, 1024, 1 << 16
_DEVICES = frozenset(("cpu", "cuda"))
_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
"""A mode that runs an update twice (selective checkpointing) must see the same operations both times."""
_numbers: dict[tuple[float, torch.dtype, torch.device], Tensor] = {}
_ranges: dict[tuple[int, int, torch.device], Tensor] = {}


def number(v: float, x: Tensor) -> Tensor | float:
    """The number as a tensor of x's dtype, on its device; the plain number where that is the better choice."""
    if is_compiling() or _modes() or type(x) not in mode.PLAIN or (not v and copysign(1.0, v) < 0):  # -0.0 == 0.0
        return v
    key = v, x.dtype, x.device
    cached = _numbers.get(key)
    if cached is None:
        if len(_numbers) >= _MOST_NUMBERS or not _may_cache(x):
            return v
        if (x.is_floating_point() or x.is_complex()) and not values.fits(v, x.dtype):
            return v
        cached = _numbers[key] = _made(lambda: torch.tensor(v, dtype=x.dtype), x.device)
    return cached


def positions(start: int, stop: int, like: Tensor) -> Tensor | None:
    """`torch.arange(start, stop)` on the tensor's device, if the numbers are small."""
    if stop > _MOST_POSITIONS or _modes() or type(like) not in mode.PLAIN:
        return None
    device = like.device
    key = start, stop, device
    cached = _ranges.get(key)
    if cached is None:
        everything = _ranges.get((0, _MOST_POSITIONS, device))
        if everything is None:
            if not _may_cache(like):
                return None
            everything = _made(lambda: torch.arange(_MOST_POSITIONS), device)
            _ranges[0, _MOST_POSITIONS, device] = everything
        with torch.inference_mode(False), torch._C.DisableTorchFunction():
            cached = everything[start:stop]  # a view, which takes no memory
        if len(_ranges) < _MOST_RANGES:
            _ranges[key] = cached
    return cached


def _may_cache(like: Tensor) -> bool:
    """No tracer may record a cached tensor as a part of the program."""
    return like.device.type in _DEVICES and mode.looks_at_values(like) and mode.seen_only_by_autograd(like)


def _made(make: Callable[[], Tensor], device: torch.device) -> Tensor:
    with torch.inference_mode(False), torch._C.DisableTorchFunction():  # no default device, no mode
        return make().to(device)  # a copy from the CPU waits, so every stream may read the result
