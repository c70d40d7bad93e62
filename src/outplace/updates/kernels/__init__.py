"""Kernels of our own, where they are faster than ATen's: masked writes to large CUDA tensors.

Eager ATen has no single good kernel for them: `masked_fill` copies first, and `where` does not vectorise. Under
torch.compile and under torch.func's transforms the ATen operation is what they understand, and Inductor makes as good a
kernel of it.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

FROM_ELEMENTS = 1 << 22
"""Smaller tensors are bound by the launch, and ATen's is quicker."""


def masked_set(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`torch.where(mask, value, x)` for a mask and a value, number or tensor, that broadcast to x and have its dtype."""
    if x.is_cuda and x.numel() >= FROM_ELEMENTS:
        ours = _triton()
        if ours is not None:
            done: Tensor | None = ours.masked_set(x, mask, value)
            if done is not None:
                return done
    return torch.where(mask, value, x)


@functools.cache
def _triton() -> ModuleType | None:
    """The Triton kernels, or None where Triton is not installed."""
    try:
        from outplace.updates.kernels import masked
    except ImportError:
        return None
    return masked
