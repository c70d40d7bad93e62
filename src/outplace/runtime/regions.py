"""Do the memory that was saved and the memory that was written overlap at all?"""

from __future__ import annotations

import torch

from outplace.runtime.record import Region

_LARGEST_SPAN = 2**24


def written_apart(saved: torch.Tensor, region: Region | None) -> bool:
    """True where it is certain that the write reached no element of the saved tensor."""
    if region is None or saved.layout is not torch.strided:
        return False
    try:
        with torch.no_grad(), torch._C.DisableTorchFunction():
            written = torch.empty(0, device="meta").as_strided(region.size, region.stride, region.offset)[region.index]
            return not _overlap(saved, written)
    except (RuntimeError, IndexError, NotImplementedError):
        return False


def _bounds(tensor: torch.Tensor) -> tuple[int, int]:
    """The first element in the storage and one past the last."""
    first = int(tensor.storage_offset())
    reach = sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride(), strict=True))
    return first, first + reach + 1


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.numel() == 0 or other.numel() == 0:
        return False
    (start, end), (other_start, other_end) = _bounds(one), _bounds(other)
    if end <= other_start or other_end <= start:
        return False
    span = max(end, other_end) - min(start, other_start)
    if span > _LARGEST_SPAN:
        return True
    base = min(start, other_start)
    touched = torch.zeros(span, dtype=torch.bool)
    touched.as_strided(one.size(), one.stride(), start - base).fill_(True)
    return bool(touched.as_strided(other.size(), other.stride(), other_start - base).any())
