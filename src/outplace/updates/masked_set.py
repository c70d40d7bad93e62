"""`torch.where(mask, value, x)`, by the fastest way for x's size, device and dtype.

ATen is the fastest for most sizes. For large tensors it is not: on the CPU its `where` branches for every element, and
on CUDA it does not vectorise for numbers. There our own kernels do the work. Under torch.compile and torch.func's
transforms it is always ATen, which they understand.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from outplace.updates import autograd, cached_tensors, cpu_masks, cuda_kernels, mode, values

SMALL_ON_CPU = 1 << 14
"""From this many elements on, the kernels for the CPU are faster than `where`."""
KERNEL_BYTES_RECORDED = 1 << 28
"""From this size of x on our kernels are the fastest with gradients: below, the device waits for Python's backward."""
FILL_ELEMENTS = 1 << 24
"""From here on `masked_fill` is faster than `where` for the short floats, although it reads x twice."""
STRIDED_BYTES = 1 << 26
"""From here on a clone that is filled is faster than `where` if x and the mask lie differently in memory."""
_SHORT_FLOATS = frozenset((torch.bfloat16, torch.float16))


def masked_set(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`torch.where(mask, value, x)`; the mask and the value, a number or a tensor of x's dtype, broadcast to x."""
    if x.numel() >= SMALL_ON_CPU and (x.is_cuda or x.is_cpu):
        result = _large_on_cuda(x, mask, value) if x.is_cuda else _large_on_cpu(x, mask, value)
        if result is not None:
            return result
    return torch.where(mask, cached_tensors.number(value, x) if type(value) is float else value, x)


def _large_on_cpu(x: Tensor, mask: Tensor, value: Any) -> Tensor | None:
    if x.dtype not in cpu_masks.DTYPES or mask.shape != x.shape or not _may_use_kernels(x, mask, value):
        return None  # a mask that broadcasts is regular: `where` predicts its branches
    if isinstance(value, Tensor):
        return autograd.set_mask(cpu_masks.set_tensor, x, mask, value.expand(x.shape))
    return autograd.set_mask(cpu_masks.set_number, x, mask, value)


def _large_on_cuda(x: Tensor, mask: Tensor, value: Any) -> Tensor | None:
    is_tensor, recorded = isinstance(value, Tensor), autograd.records(x, value)
    least = KERNEL_BYTES_RECORDED if recorded else cuda_kernels.BYTES
    if cuda_kernels.pay(x, least) and _may_use_kernels(x, mask, value):
        if is_tensor:  # there `where` is as fast as can be, but its gradients are not
            return autograd.set_mask(_where, x, mask, value.expand(x.shape)) if recorded else None
        if values.fits(value, x.dtype) and cuda_kernels.walks(x, mask):
            return autograd.set_mask(cuda_kernels.set_number, x, mask, value)
    if is_tensor or mask.shape != x.shape or not mode.eager():
        return None
    if not x.is_contiguous():
        far = x.numel() * x.element_size() >= STRIDED_BYTES and x.stride() != mask.stride()
        return x.clone().masked_fill_(mask, value) if far else None
    if x.dtype in _SHORT_FLOATS and x.numel() >= FILL_ELEMENTS and values.fits(value, torch.float16):
        return x.masked_fill(mask, value)
    return None


def _may_use_kernels(x: Tensor, mask: Tensor, value: Any) -> bool:
    if type(mask) is not Tensor or mask.device != x.device:
        return False
    if isinstance(value, Tensor) and not (value.device == x.device and mode.is_memory(value)):
        return False
    return mode.seen_only_by_autograd(x)


def _where(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    return torch.where(mask, value, x)
