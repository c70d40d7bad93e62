"""Updates of one int or slice of one dimension, by the fastest way for x's size and device.

A clone and a write is the plain way, but its gradient is slow. On CUDA `split` and `cat` is as fast forward and faster
backward, up to the size where the time on the device counts. ATen's `slice_scatter` and `select_scatter` are not used:
they copy all of the memory that x is a view of, and backward all of the memory that the gradient is a view of, which
after `torch.stack` is the gradient of every step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from outplace.updates import autograd, cached_tensors, cuda_kernels, mode, values
from outplace.updates.index import extent

CAT, CAT_RECORDED, CAT_BLOCK = 1 << 22, 1 << 24, 1 << 25
"""Below this many elements `split` and `cat` is the fastest on CUDA: without gradients, with them, and for tensors that
replace one block of memory.
"""
KERNEL_BYTES_RECORDED = 1 << 29
"""From this size of x on our kernels are the fastest with gradients: below, the device waits for Python's backward."""
INDEXED = 1 << 14
"""Below this many elements an index tensor is the fastest on the CPU, with gradients."""
PIECES_BYTES, PIECES_SHARE = 1 << 22, 1 / 16
"""From this many bytes on, and for this share of x, the CPU is faster without copying what is then replaced."""


class Part:
    """The elements from `start` to before `stop` of one dimension of x; an int has no such dimension in `x[index]`."""

    __slots__ = ("dim", "is_int", "start", "stop")

    def __init__(self, dim: int, start: int, stop: int, is_int: bool) -> None:
        self.dim, self.start, self.stop, self.is_int = dim, start, stop, is_int

    @property
    def as_index(self) -> Any:
        """The index of this part."""
        item = self.start if self.is_int else slice(self.start, self.stop)
        return (slice(None),) * self.dim + (item,) if self.dim else item


def replaced(x: Tensor, dim: int, item: Any, value: Any) -> Tensor | None:
    """A copy of x with an int or slice of a dimension replaced; not for torch.compile.

    The value is a number, or a tensor of x's dtype that broadcasts to the part. None for slices with steps, for ints
    out of range, and for what only `cat` could do where torch.func or a tracer is at work.
    """
    size = x.shape[dim]
    is_int = type(item) is int
    if is_int:
        if not -size <= item < size:
            return None
        start = item if item >= 0 else item + size
        stop = start + 1
    elif type(item) is slice and (item.step is None or item.step == 1):
        start, stop = item.start, item.stop
        if type(start) is not int or type(stop) is not int or not 0 <= start <= stop <= size:
            bounds = _bounds(item, size)
            if bounds is None:
                return None
            start, stop = bounds
    else:
        return None
    if x.is_cuda and type(x) in mode.PLAIN and x.is_contiguous():
        result = _small_on_cuda(x, dim, start, stop, is_int, value)
        if result is not None:
            return result
    if not mode.eager():
        return None
    part = Part(dim, start, stop, is_int)
    if type(x) in mode.PLAIN and x.is_contiguous():
        if x.is_cuda:
            return _large_on_cuda(x, part, value)
        if x.is_cpu:
            return _on_cpu(x, part, value)
    return _written(x, part, value)


def _bounds(item: slice, size: int) -> tuple[int, int] | None:
    """Where a slice starts and stops; None if that is not known as ints: a slice may end at a tensor."""
    start, stop, _ = extent(item, size)
    return (start, stop) if type(start) is int and type(stop) is int else None


def _small_on_cuda(x: Tensor, dim: int, start: int, stop: int, is_int: bool, value: Any) -> Tensor | None:
    """By `split` and `cat`; None if x is too large for it to be the fastest, or if the value has another shape."""
    elements = x.numel()
    if elements < CAT or (elements < CAT_BLOCK and dim == 0 and type(value) is Tensor):
        return _cat(x, dim, start, stop, is_int, value)
    return None


def _large_on_cuda(x: Tensor, part: Part, value: Any) -> Tensor:
    records, is_tensor = autograd.records(x, value), isinstance(value, Tensor)
    by_kernel = cuda_kernels.pay(x, KERNEL_BYTES_RECORDED if records else cuda_kernels.BYTES)
    if not by_kernel:
        if (is_tensor and _is_one_block(x, part)) or (records and x.numel() < CAT_RECORDED):
            result = _cat(x, part.dim, part.start, part.stop, part.is_int, value)
            if result is not None:
                return result
        if not records:
            return _written(x, part, value)
    if not _only_autograd_sees(x, value):
        return _written(x, part, value)
    if is_tensor:
        value = value.expand(x[part.as_index].shape)
    elif by_kernel and not values.fits(value, x.dtype):
        by_kernel = False
    return autograd.set_part(cuda_kernels.set_part if by_kernel else _written, x, part, value)


def _on_cpu(x: Tensor, part: Part, value: Any) -> Tensor:
    elements = x.numel()
    if elements < INDEXED:
        return _indexed(x, part, value) if autograd.records(x, value) else _written(x, part, value)
    is_large = elements * x.element_size() >= PIECES_BYTES
    is_wide = part.stop - part.start >= x.shape[part.dim] * PIECES_SHARE
    if not (is_large and is_wide) or not _only_autograd_sees(x, value):
        return _written(x, part, value)
    if isinstance(value, Tensor):
        value = value.expand(x[part.as_index].shape)
    return autograd.set_part(_in_pieces, x, part, value)


def _indexed(x: Tensor, part: Part, value: Any) -> Tensor:
    """By the positions of the part as an index tensor; the gradient of that is faster than the gradient of a write."""
    positions = None if mode.refused_by_autocast(x) else cached_tensors.positions(part.start, part.stop, x)
    if isinstance(value, Tensor):
        if positions is not None and value.dim() + part.is_int == x.dim():
            return torch.index_copy(x, part.dim, positions, value.unsqueeze(part.dim) if part.is_int else value)
    elif positions is not None and type(value) in (float, int) and values.fits(value, x.dtype):
        return torch.index_fill(x, part.dim, positions, value)
    return _written(x, part, value)


def _cat(x: Tensor, dim: int, start: int, stop: int, is_int: bool, value: Any) -> Tensor | None:
    """The value between the elements before the part and those after it; None if it has another shape."""
    if mode.refused_by_autocast(x):
        return None
    if type(value) is not Tensor:
        value = cached_tensors.number(value, x) if type(value) in (float, int) else value
        if type(value) is not Tensor:
            return None
        value = value.expand(*x.shape[:dim], stop - start, *x.shape[dim + 1 :])
    elif is_int:
        if value.dim() != x.dim() - 1:
            return None
        value = value.unsqueeze(dim)
    before, old, after = x.split_with_sizes((start, stop - start, x.shape[dim] - stop), dim)
    return torch.cat((before, value, after), dim) if value.shape == old.shape else None


def _written(x: Tensor, part: Part, value: Any) -> Tensor:
    if isinstance(value, Tensor) and value.device != x.device:
        raise RuntimeError("the value is on another device than x")
    copy = x.clone()
    copy[part.as_index] = value
    return copy


def _in_pieces(x: Tensor, part: Part, value: Any) -> Tensor:
    """The value and the rest, each copied to where it belongs; a part that is not one block is copied twice."""
    if _is_one_block(x, part):
        result = torch.empty_like(x)
        for start, size in ((0, part.start), (part.stop, x.shape[part.dim] - part.stop)):
            result.narrow(part.dim, start, size).copy_(x.narrow(part.dim, start, size))
    else:
        result = x.clone()
    if isinstance(value, Tensor):
        result[part.as_index].copy_(value)
    else:
        result[part.as_index] = value
    return result


def _only_autograd_sees(x: Tensor, value: Any) -> bool:
    if isinstance(value, Tensor) and not (value.device == x.device and mode.is_memory(value)):
        return False
    return mode.seen_only_by_autograd(x)


def _is_one_block(x: Tensor, part: Part) -> bool:
    """Does the part lie in one block of memory? x is contiguous."""
    return all(size == 1 for size in x.shape[: part.dim])
