"""Do the saved memory and the memory that was written later overlap?"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from outplace.runtime.record.log import Region

_LARGEST_SPAN = 2**26


def written_apart(saved: Sequence[tuple[int, torch.Tensor]], writes: Sequence[tuple[int, Region | None]]) -> bool:
    """Is it certain that no write reached memory that was saved before it?

    Each saved tensor comes with the version at which it was saved, each write with the version after it. All lie in one
    storage.
    """
    if not saved or any(tensor.layout is not torch.strided for _, tensor in saved):
        return False
    oldest = min(kept for kept, _ in saved)
    since = [(version, region) for version, region in writes if version > oldest]
    try:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            regions = [(version, _view(region)) for version, region in since if region is not None]
            return len(regions) == len(since) > 0 and not _any_overlap(saved, regions)
    except (RuntimeError, IndexError, NotImplementedError):
        return False


def _view(region: Region) -> torch.Tensor:
    """A tensor without memory, with the geometry of the written region."""
    return torch.empty(0, device="meta").as_strided(region.size, region.stride, region.offset)[region.key]


def _any_overlap(saved: Sequence[tuple[int, torch.Tensor]], written: Sequence[tuple[int, torch.Tensor]]) -> bool:
    """Goes back from the last version and keeps a map of the elements that were written after it."""
    bounds = [_bounds(tensor) for _, tensor in (*saved, *written) if tensor.numel()]
    start, end = min(first for first, _ in bounds), max(last for _, last in bounds)
    if end - start > _LARGEST_SPAN:
        return True
    touched = torch.zeros(end - start, dtype=torch.bool)
    later = sorted(written, key=lambda entry: entry[0])
    for version, tensor in sorted(saved, key=lambda entry: entry[0], reverse=True):
        while later and later[-1][0] > version:
            torch.Tensor.fill_(_in(touched, later.pop()[1], start), True)  # on the class: not recorded as a write
        if bool(_in(touched, tensor, start).any()):
            return True
    return False


def _in(touched: torch.Tensor, tensor: torch.Tensor, start: int) -> torch.Tensor:
    offset = int(tensor.storage_offset()) - start if tensor.numel() else 0
    return touched.as_strided(tensor.size(), tensor.stride(), offset)


def _bounds(tensor: torch.Tensor) -> tuple[int, int]:
    """The first element in the storage, and one past the last."""
    first = int(tensor.storage_offset())
    reach = sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride(), strict=True))
    return first, first + reach + 1
