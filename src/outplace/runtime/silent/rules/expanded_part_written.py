"""One part of a tensor whose parts share memory is written, and other parts change with it.

`h = torch.zeros(1, 5).expand(batch, 5)`, `h[0] = v`: all rows of h are one row of memory. `for window in
series.unfold(0, 8, 2)`, `window -= window.mean()`: each window writes into its neighbours. PyTorch refuses a write to
all of them at once, and says nothing about a write to one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from types import FrameType
from typing import Any

import torch

from outplace.knowledge.derivatives import normalises
from outplace.knowledge.silent_rules.two_names import EXPANDED_PART_WRITTEN
from outplace.repair.syntax.code import root_of
from outplace.repair.syntax.flow import bindings
from outplace.runtime.errors import freed_names
from outplace.runtime.locate import names, sites
from outplace.runtime.record import hidden_writes
from outplace.runtime.record.log import Region, Write
from outplace.runtime.record.snapshots import PLAIN, unobserved
from outplace.runtime.record.storages import storage_of
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.operands import frame_of

_LARGEST = 1 << 20


def _is_part(region: Region) -> bool:
    """Does the index take one of the places that are one memory? (PyTorch refuses several.)"""
    index = region.key
    rest = len(region.size) - sum(part is not None and part is not Ellipsis for part in index)
    axis = 0
    for part in index:
        if part is Ellipsis:
            axis += rest
        elif part is not None:
            length, repeated = region.size[axis], region.stride[axis] == 0
            some = 1 if isinstance(part, int) else len(range(*part.indices(length)))
            if repeated and some == 1 < length:
                return True
            axis += 1
    return False


def _is_some(write: Write, tensor: torch.Tensor) -> bool:
    """Does `h[index] = v` take some places of the first dimension, whose places are one memory, but not all of them?"""
    frame, node = frame_of(write), sites.at_instruction(write.frames[-1], write.operation).node
    target = (
        node.target if isinstance(node, ast.AugAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
    )
    if frame is None or not isinstance(target, ast.Subscript) or tensor.stride(0) != 0:
        return False
    index = freed_names.value_of(target.slice, frame)
    if type(index) is not torch.Tensor or index.dim() > 1:
        return False
    taken: int = int(index.sum()) if index.dtype is torch.bool else index.unique().numel()
    return 0 < taken < len(tensor)


def _overlaps(tensor: torch.Tensor) -> bool:
    """Do some elements share memory?"""
    reach = 1
    for stride, length in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if length > 1 and stride < reach:
            break
        reach += (length - 1) * stride
    else:
        return False
    if tensor.numel() > _LARGEST:
        return False
    places = torch.zeros((), dtype=torch.long)
    for stride, length in zip(tensor.stride(), tensor.shape, strict=True):
        places = places.unsqueeze(-1) + torch.arange(length) * stride
    return bool(places.unique().numel() < tensor.numel())


def _wholes(write: Write, frame: FrameType) -> Iterator[torch.Tensor]:
    """What the written part was taken from: `windows` of `for w in windows` and of `w = windows[i]`."""
    target = sites.target_node(sites.at_instruction(write.frames[-1], write.operation), write.operation)
    root, standing = None if target is None else root_of(target), sites.statement_of(frame)
    if standing is None or not isinstance(root, ast.Name):
        return
    for node in bindings(*standing, root.id):
        taken: Any = getattr(node, "iter", getattr(node, "value", None))
        taken = taken.args[0] if isinstance(taken, ast.Call) and taken.args else taken
        taken = taken.value if isinstance(taken, ast.Subscript) else taken
        value = freed_names.value_of(taken, frame) if isinstance(taken, ast.Name | ast.Attribute) else None
        if type(value) in PLAIN:
            yield value


class Detector(detector.Detector):
    """Looks at the writes to parts of tensors."""

    def __init__(self) -> None:
        self._looks = hidden_writes.Seldom()

    def on_plain_write(self, write: Write, tensor: torch.Tensor) -> None:
        """A tensor that requires no grad is about to be written."""
        region = write.region
        if not write.frames:
            return
        if write.operation != "__setitem__":
            if region is not None and normalises(write.operation) and self._looks.is_due(write.frames[-1]):
                scan.guarded(partial(self._look, write, tensor))
        elif region is None:  # an index by a tensor
            if tensor.layout is torch.strided and not tensor.is_nested and 0 in tensor.stride():
                scan.guarded(partial(self._look_at_index, write, tensor))
        elif 0 in region.stride and _is_part(region):
            scan.guarded(partial(self._tell, write, tensor))
        reporting.raise_if_strict()

    def _look(self, write: Write, tensor: torch.Tensor) -> None:
        frame = frame_of(write)
        with unobserved():
            wholes = _wholes(write, frame) if frame is not None else ()
            parts = (whole for whole in wholes if whole is not tensor and storage_of(whole) == storage_of(tensor))
            overlaps = any(map(_overlaps, parts))
        if overlaps:
            self._tell(write, tensor)

    def _look_at_index(self, write: Write, tensor: torch.Tensor) -> None:
        with unobserved():
            some = _is_some(write, tensor)
        if some:
            self._tell(write, tensor)

    def _tell(self, write: Write, tensor: torch.Tensor) -> None:
        found = names.described(tensor, scan.target_of(write))
        reporting.tell(EXPANDED_PART_WRITTEN, found, scan.mutations_of([write]))
