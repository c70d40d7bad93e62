"""What a run computed, to the bit: losses, the gradients of each backward, parameters and buffers after each step."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Testimony:
    """Digests in the order in which things happened. Two runs that computed the same have the same."""

    __test__ = False  # pytest takes the name for a test's

    losses: list[str] = field(default_factory=list)
    gradients: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    buffers: list[str] = field(default_factory=list)

    @property
    def says_something(self) -> bool:
        """Was there a backward at all?"""
        return bool(self.gradients)

    def write(self, path: Path) -> None:
        """Leaves it in a file."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


def read(path: Path) -> Testimony:
    """What a process has left."""
    return Testimony(**json.loads(path.read_text(encoding="utf-8")))


def of_tensors(tensors: Any) -> str:
    """One digest for tensors, in this order."""
    return hashlib.sha256("".join(map(_of_tensor, tensors)).encode()).hexdigest()


def of_leaves(leaves: Any) -> str:
    """One digest for the gradients of leaves, in whatever order the graph hands them out."""
    pairs = sorted(_of_tensor(leaf) + _of_tensor(leaf.grad) for leaf in leaves if leaf.grad is not None)
    return hashlib.sha256("".join(pairs).encode()).hexdigest()


def _of_tensor(tensor: Any) -> str:
    import torch

    plain = tensor.detach()
    if plain.layout != torch.strided:
        plain = plain.to_dense()
    plain = plain.resolve_conj().resolve_neg().cpu().reshape(-1)  # in one row, each number after the other
    data = plain.clone(memory_format=torch.contiguous_format).view(torch.uint8)
    return hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)}".encode() + data.numpy().tobytes()).hexdigest()
