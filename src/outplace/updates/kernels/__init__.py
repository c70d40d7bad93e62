"""Masked writes, each in the quickest of the ways: ATen's, or for larger tensors kernels of our own.

Eager ATen has no good kernel for them: `masked_fill` copies first, and `where` branches for every element (CPU) or does
not vectorise for numbers (CUDA). Under torch.compile and torch.func's transforms the ATen operation is what they
understand, and Inductor makes as good a kernel of it.
"""

from __future__ import annotations

import functools
from typing import Any, cast

import torch
from torch import Tensor

from outplace.updates.kernels import on_cpu
from outplace.updates.kernels.function import Engine
from outplace.updates.kernels.function import masked_set as by_engine

CPU_ELEMENTS = 1 << 14
CUDA_BYTES = 1 << 26
"""From here on the time on the device is longer than what Python needs to start a kernel of ours."""
_SHORT_FLOATS = (torch.bfloat16, torch.float16)


def masked_set(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`torch.where(mask, value, x)`; the mask and the value, a number or a tensor of x's dtype, broadcast to x."""
    if x.numel() >= CPU_ELEMENTS:
        engine = _engine(x)
        done = None if engine is None else by_engine(engine, x, mask, value)
        if done is not None:
            return done
        if x.is_cuda and x.dtype in _SHORT_FLOATS and mask.shape == x.shape and _is_moderate(value):
            return x.masked_fill(mask, value)
    return torch.where(mask, value, x)


def is_large(x: Tensor) -> bool:
    """Is this a CUDA tensor so large that the time on the device is what counts?"""
    return bool(x.is_cuda and x.numel() * x.element_size() >= CUDA_BYTES)


def _engine(x: Tensor) -> Engine | None:
    if x.is_cuda:
        return _triton() if is_large(x) else None
    return cast(Engine, on_cpu) if x.is_cpu else None


@functools.cache
def _triton() -> Engine | None:
    """The Triton kernels, or None where Triton is not installed."""
    try:
        from outplace.updates.kernels import on_cuda
    except ImportError:
        return None
    return cast(Engine, on_cuda)


def _is_moderate(value: Any) -> bool:
    """A number that `masked_fill` takes for every dtype, which for float16 ends at 65504."""
    return isinstance(value, (int, float)) and abs(value) < 65504
