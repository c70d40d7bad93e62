"""Masked writes on the CPU: by the bits of the elements, `v ^ ((x ^ v) & (mask - 1))`.

ATen's `where` branches for every element, and on an irregular mask each second guess is wrong: 4 ns an element. These
integer operations run in vector units, on one block at a time, so that all but the first and last touch only the cache.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

INTEGERS = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.bfloat16: torch.int16,
    torch.float16: torch.int16,
}
DTYPES = frozenset(INTEGERS)
BLOCK = 1 << 18
GRAIN = 1 << 15
"""The least that ATen gives to a thread."""


def set_number(x: Tensor, mask: Tensor, value: float) -> Tensor:
    """The number where the mask is True, x elsewhere."""
    if not (x.is_contiguous() and mask.is_contiguous()):
        return torch.where(mask, value, x)
    bits = int(torch.tensor(value, dtype=x.dtype).view(INTEGERS[x.dtype]))
    out = torch.empty_like(x)
    for target, source, chosen in _blocks(out, x, mask):
        target.copy_(chosen).sub_(1)
        target.bitwise_and_(source.bitwise_xor(bits)).bitwise_xor_(bits) if bits else target.bitwise_and_(source)
    return out


def set_tensor(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    """The value where the mask is True, x elsewhere."""
    if not (x.is_contiguous() and mask.is_contiguous() and value.is_contiguous()):
        return torch.where(mask, value, x)
    out = torch.empty_like(x)
    for target, source, new, chosen in _blocks(out, x, value, mask):
        target.copy_(chosen).sub_(1).bitwise_and_(source ^ new).bitwise_xor_(new)
    return out


def split(grad: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient outside the mask and inside it, with zeros elsewhere."""
    if not (grad.is_contiguous() and mask.is_contiguous()):
        return torch.where(mask, 0.0, grad), torch.where(mask, grad, 0.0)
    outside, inside = torch.empty_like(grad), torch.empty_like(grad)
    for target, other, source, chosen in _blocks(outside, inside, grad, mask):
        other.copy_(chosen).neg_().bitwise_and_(source)
        torch.bitwise_xor(source, other, out=target)
    return outside, inside


def _blocks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Blocks of the contiguous tensors' bits. Masks stay bools: in memory they may be any byte, but copied 0 or 1."""
    size = max(BLOCK, GRAIN * torch.get_num_threads())
    bits = [tensor.view(INTEGERS.get(tensor.dtype, tensor.dtype)).view(-1) for tensor in tensors]
    return zip(*(tensor.split(size) for tensor in bits), strict=True)
