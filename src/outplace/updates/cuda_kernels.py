"""Updates of large CUDA tensors by Triton kernels, each of which reads and writes everything once.

Triton compiles a kernel when it is first used (about a second), and keeps the result on disk for later programs. Small
tensors never come here, so their updates compile nothing.
"""

from __future__ import annotations

import contextlib
import functools
import math
from typing import Any

import torch
from torch import Tensor

from outplace.updates.strides import collapsed, span

BYTES = 1 << 27
"""From this size of x on the kernels are faster than ATen without gradients: below, the device waits for Python."""
DTYPES = frozenset((torch.float32, torch.bfloat16, torch.float16))
BLOCK = 1024
MAX_DIMS = 4
LARGE = 2**31 - 2**16
"""From here on offsets may not fit into 32 bits."""


def pay(x: Tensor, least_bytes: int) -> bool:
    """Is x large enough for the kernels, and can they be used?"""
    is_large = x.numel() * x.element_size() >= least_bytes
    return is_large and x.is_cuda and x.dtype in DTYPES and _triton() is not None


def walks(x: Tensor, mask: Tensor) -> bool:
    """Can the kernels for masks walk these tensors? They know four dimensions, after neighbours are joined."""
    return _is_flat(x, mask) or _strided(x, mask) is not None


def set_number(x: Tensor, mask: Tensor, number: float) -> Tensor:
    """The number where the mask is True, x elsewhere; the result lies in memory as x does."""
    out = torch.empty_like(x)
    if _is_flat(x, mask):
        _start(_triton().set_flat, x, out, x, mask, float(number), *_flat(x))
    else:
        _start(_triton().set_strided, x, out, x, mask, float(number), *(_strided(x, mask) or ()))
    return out


def split(grad: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient outside the mask and inside it, with zeros elsewhere."""
    outside, inside = torch.empty_like(grad), torch.empty_like(grad)
    if _is_flat(grad, mask):
        _start(_triton().split_flat, grad, outside, inside, grad, mask, *_flat(grad))
    else:
        _start(_triton().split_strided, grad, outside, inside, grad, mask, *(_strided(grad, mask) or ()))
    return outside, inside


def set_part(x: Tensor, part: Any, value: Any) -> Tensor:
    """x with a part of one dimension replaced by a number, or by a tensor of its shape; x is contiguous."""
    out = torch.empty_like(x)
    inner = math.prod(x.shape[part.dim + 1 :])
    first, last = part.start * inner, part.stop * inner
    # A narrow part lies in sectors of memory that are read anyway; a wide one need not be read.
    is_wide = (last - first) * x.element_size() >= 128
    rest = (x.numel(), x.shape[part.dim] * inner, first, last, is_wide, x.numel() >= LARGE, BLOCK)
    if isinstance(value, Tensor):
        _start(_triton().set_part, x, out, x, value.contiguous(), *rest)
    else:
        _start(_triton().set_part_to_number, x, out, x, float(value), *rest)
    return out


def _start(kernel: Any, x: Tensor, *arguments: Any) -> None:
    is_current = x.get_device() == torch.cuda.current_device()
    with contextlib.nullcontext() if is_current else torch.cuda.device(x.device):
        kernel[(-(-x.numel() // BLOCK),)](*arguments)


def _is_flat(x: Tensor, mask: Tensor) -> bool:
    return bool(x.shape == mask.shape and x.is_contiguous() and mask.is_contiguous())


def _flat(x: Tensor) -> tuple[int, ...]:
    return x.numel(), x.numel() >= LARGE, BLOCK


def _strided(x: Tensor, mask: Tensor) -> tuple[int, ...] | None:
    """The sizes and strides by which a kernel walks both in the order of the result; None for too many dimensions."""
    return _walk(x.shape, x.stride(), mask.expand(x.shape).stride())


@functools.lru_cache(maxsize=1024)
def _walk(shape: tuple[int, ...], x_strides: tuple[int, ...], mask_strides: tuple[int, ...]) -> tuple[int, ...] | None:
    x, mask = (torch.empty_strided(shape, strides, device="meta") for strides in (x_strides, mask_strides))
    dims = collapsed(torch.empty_like(x), [x, mask])
    missing = MAX_DIMS - len(dims)
    if missing < 0:
        return None
    sizes = [size for size, _ in reversed(dims)] + [1] * missing
    strides = [stride for _, both in reversed(dims) for stride in both] + [0] * 2 * missing
    is_large = x.numel() >= LARGE or any(span(dims, operand) >= LARGE for operand in (0, 1))
    return (x.numel(), *sizes[: MAX_DIMS - 1], *strides, len(dims), is_large, BLOCK)


@functools.cache
def _triton() -> Any:
    """The Triton kernels, or None where Triton is missing, or cannot compile one."""
    try:
        from outplace.updates import triton_kernels

        x = torch.zeros(1, device="cuda")
        triton_kernels.set_flat[(1,)](x, x, x == 0, 1.0, 1, False, BLOCK)
    except Exception:  # whatever is wrong with it, ATen does the work
        return None
    return triton_kernels
