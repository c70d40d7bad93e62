"""Digests of what a run computed: losses, gradients of each backward, parameters and buffers after each step."""

from __future__ import annotations

import ctypes
import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Digests:
    """Digests in order of time. Two runs that computed the same bits have equal digests."""

    __test__ = False  # for pytest: this is not a test class

    losses: list[str] = field(default_factory=list)
    gradients: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    buffers: list[str] = field(default_factory=list)

    @property
    def has_gradients(self) -> bool:
        """Was there a backward at all?"""
        return bool(self.gradients)

    def write(self, path: Path) -> None:
        """Writes the data to a file."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


def read(path: Path) -> Digests:
    """Reads the file that a process has written."""
    return Digests(**json.loads(path.read_text(encoding="utf-8")))


def of_tensors(tensors: Any) -> str:
    """One digest for several tensors; the order counts."""
    return hashlib.sha256("".join(map(_of_tensor, tensors)).encode()).hexdigest()


def of_leaves(leaves: Any) -> str:
    """One digest for the gradients of leaves; the order does not count."""
    pairs = sorted(_of_tensor(leaf) + _of_tensor(leaf.grad) for leaf in leaves if leaf.grad is not None)
    return hashlib.sha256("".join(pairs).encode()).hexdigest()


def _of_tensor(tensor: Any) -> str:
    import torch

    plain = tensor.detach()
    if plain.layout != torch.strided:
        plain = plain.to_dense()
    plain = plain.resolve_conj().resolve_neg()
    on_device = plain.is_cuda and plain.element_size() in _BITS
    if not (on_device and plain.is_contiguous()):
        plain = plain.cpu()
    row = plain.reshape(-1).clone(memory_format=torch.contiguous_format) if plain.is_cpu else plain.view(-1)
    if on_device:
        row = _sums(row.view(getattr(torch, _BITS[row.element_size()]))).cpu()
    data = row.view(torch.uint8)
    digest = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
    digest.update((ctypes.c_char * data.numel()).from_address(data.data_ptr()))  # numpy may be missing
    return digest.hexdigest()


_BITS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}
"""By the size of an element: integers of the same bits."""
_STRETCH = 1 << 16
"""Elements summed at a time, to use little device memory."""


def _sums(numbers: Any) -> Any:
    """Sums of the numbers with odd weights, computed on the device. That is faster than copying them.

    A single different bit changes the sum, because an odd weight has an inverse modulo 2^64.
    """
    import torch

    weights = torch.arange(1, 2 * _STRETCH, 2, device=numbers.device) * -7046029254386353131
    return torch.stack([(part * weights[: part.numel()]).sum() for part in numbers.split(_STRETCH)])
