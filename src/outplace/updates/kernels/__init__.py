"""Masked writes: the quickest of ATen's ways, and on large CUDA tensors kernels of our own.

Eager ATen has no single good kernel for them: `masked_fill` copies first, and `where` is slow for numbers, most of all
in 16 bits. Under torch.compile and torch.func's transforms the ATen operation is what they understand, and Inductor
makes as good a kernel of it.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

FROM_BYTES = 1 << 27
"""From here on the device is busy for longer than Python needs to launch a kernel of ours (about 0.1 ms)."""
BUSY_ELEMENTS = 1 << 21
_SHORT_FLOATS = (torch.bfloat16, torch.float16)


def busy(x: Tensor) -> bool:
    """Is this tensor so large that the device's time counts, and no longer that of the launch?"""
    return x.is_cuda and x.numel() >= BUSY_ELEMENTS


def masked_set(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`torch.where(mask, value, x)`; the mask and the value, a number or a tensor of x's dtype, broadcast to x."""
    if busy(x):
        done = _masked_set_on_cuda(x, mask, value)
        if done is not None:
            return done
    return torch.where(mask, value, x)


def _masked_set_on_cuda(x: Tensor, mask: Tensor, value: Any) -> Tensor | None:
    if x.numel() * x.element_size() >= FROM_BYTES:
        ours = _triton()
        if ours is not None:
            done: Tensor | None = ours.masked_set(x, mask, value)
            if done is not None:
                return done
    if x.dtype in _SHORT_FLOATS and mask.shape == x.shape and isinstance(value, (int, float)) and abs(value) < 65504:
        return x.masked_fill(mask, value)
    return None


@functools.cache
def _triton() -> ModuleType | None:
    """The Triton kernels, or None where Triton is not installed."""
    try:
        from outplace.updates.kernels import masked
    except ImportError:
        return None
    return masked
