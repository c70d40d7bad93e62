"""Updates of one int or slice of one dimension, by the fastest way for x's size and device.

A clone and a write is the plain way, but its gradient is slow. `split` and `cat` is as fast forward and faster
backward, up to the size where the time on the device counts. ATen's `slice_scatter` and `select_scatter` are not used:
they copy all of the memory that x is a view of, and backward all of the memory that the gradient is a view of, which
after `torch.stack` is the gradient of every step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from outplace.updates import autograd, cached_tensors, cuda_kernels, masked_set, mode
from outplace.updates.index import extent

CAT_ON_CPU, CAT_ON_CUDA, CAT_ON_CUDA_RECORDED = 1 << 14, 1 << 22, 1 << 24
"""Below so many elements `split` and `cat` is the fastest; on CUDA it depends on whether autograd records it."""
PIECES_BYTES, PIECES_SHARE = 1 << 22, 1 / 16
"""From so many bytes on, and for such a share of x, the CPU is faster if it copies nothing that is then replaced."""


class Part(NamedTuple):
    """The elements from `start` to before `stop` of one dimension of x; an int has no such dimension in `x[index]`."""

    dim: int
    start: int
    stop: int
    is_int: bool

    @property
    def as_index(self) -> tuple[int | slice, ...]:
        """The index of this part."""
        item = self.start if self.is_int else slice(self.start, self.stop)
        return (slice(None),) * self.dim + (item,)


def replaced(x: Tensor, dim: int, item: Any, value: Any) -> Tensor | None:
    """A copy of x with an int or slice of a dimension replaced; for plain eager PyTorch.

    The value is a number, or a tensor of x's dtype that broadcasts to the part. None for slices with steps, and for
    ints out of range.
    """
    size = x.shape[dim]
    if type(item) is slice:
        if item.step is not None and item.step != 1:
            return None
        start, stop, _ = extent(item, size)
        if type(start) is not int or type(stop) is not int:  # a slice may end at a tensor
            return None
        part = Part(dim, start, stop, False)
    elif type(item) is int and -size <= item < size:
        part = Part(dim, item % size, item % size + 1, True)
    else:
        return None
    if type(x) not in mode.PLAIN or not x.is_contiguous():
        return _written(x, part, value)
    return _on_cuda(x, part, value) if x.is_cuda else _elsewhere(x, part, value)


def _on_cuda(x: Tensor, part: Part, value: Any) -> Tensor:
    records, elements = autograd.records(x, value), x.numel()
    if elements < (CAT_ON_CUDA_RECORDED if records else CAT_ON_CUDA):
        return _cat(x, part, value)
    is_tensor = isinstance(value, Tensor)
    by_kernel = cuda_kernels.pay(x, records) and (is_tensor or masked_set.fits(value, x.dtype))
    if is_tensor and not by_kernel and _is_one_block(x, part):
        return _cat(x, part, value)
    if not (by_kernel or records) or not _only_autograd_sees(x, value):
        return _written(x, part, value)
    if is_tensor:
        value = value.expand(x[part.as_index].shape)
    return autograd.set_part(cuda_kernels.set_part if by_kernel else _written, x, part, value)


def _elsewhere(x: Tensor, part: Part, value: Any) -> Tensor:
    elements = x.numel()
    if elements < CAT_ON_CPU:
        return _cat(x, part, value)
    is_large = x.is_cpu and elements * x.element_size() >= PIECES_BYTES
    is_wide = part.stop - part.start >= x.shape[part.dim] * PIECES_SHARE
    if not (is_large and is_wide) or not _only_autograd_sees(x, value):
        return _written(x, part, value)
    if isinstance(value, Tensor):
        value = value.expand(x[part.as_index].shape)
    return autograd.set_part(_in_pieces if _is_one_block(x, part) else _written, x, part, value)


def _cat(x: Tensor, part: Part, value: Any) -> Tensor:
    """The value between the elements before the part and those after it."""
    if x.dtype is not torch.float32 and torch.is_autocast_enabled(x.device.type):  # it refuses other short floats
        return _written(x, part, value)
    dim, start, stop, is_int = part
    before, old, after = x.split_with_sizes((start, stop - start, x.shape[dim] - stop), dim)
    if not isinstance(value, Tensor):
        number = cached_tensors.number(value, x) if type(value) in (float, int) else value
        if not isinstance(number, Tensor):
            return _written(x, part, value)
        value = number.expand(old.shape)
    elif is_int:
        if value.dim() != x.dim() - 1:
            return _written(x, part, value)
        value = value.unsqueeze(dim)
    if value.shape != old.shape:
        return _written(x, part, value.squeeze(dim) if is_int else value)
    return torch.cat((before, value, after), dim)


def _written(x: Tensor, part: Part, value: Any) -> Tensor:
    if isinstance(value, Tensor) and value.device != x.device:
        raise RuntimeError("the value is on another device than x")
    copy = x.clone()
    copy[part.as_index] = value
    return copy


def _in_pieces(x: Tensor, part: Part, value: Any) -> Tensor:
    """The value and the rest, each copied to where it belongs."""
    result = torch.empty_like(x)
    result[part.as_index] = value
    rest = x.shape[part.dim] - part.stop
    for start, size in ((0, part.start), (part.stop, rest)):
        result.narrow(part.dim, start, size).copy_(x.narrow(part.dim, start, size))
    return result


def _only_autograd_sees(x: Tensor, value: Any) -> bool:
    if isinstance(value, Tensor) and not (value.device == x.device and mode.is_memory(value)):
        return False
    return mode.seen_only_by_autograd(x)


def _is_one_block(x: Tensor, part: Part) -> bool:
    """Does the part lie in one block of memory? x is contiguous."""
    return all(size == 1 for size in x.shape[: part.dim])
