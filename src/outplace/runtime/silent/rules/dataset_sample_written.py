"""Samples that a dataset stores, and that a transform scales in place each time they are fetched.

`target["boxes"] *= scale` in a transform changes the boxes of the dataset itself, so the next epoch scales them once
more. It is a bug if a line writes the same part of a memory in a later fetch of a `DataLoader`, and the version has
continued from there. A copy made for each fetch starts again at version 0, and a buffer is refilled before. A line that
puts a number into another part each time (`image[:, y:y + 4] = 0`) leaves less of the sample at each fetch.

A function that collates into one buffer is fine while each batch is used before the next one. If earlier batches are
still alive (`batches = list(loader)`), they all show the last one.
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch.utils.data._utils import fetch as fetching

from outplace.knowledge.derivatives import changes_again
from outplace.knowledge.silent_rules.lists import ARRAY_PART_WRITTEN, SAME_VIEW_APPENDED
from outplace.knowledge.silent_rules.two_names import DATASET_SAMPLE_WRITTEN
from outplace.knowledge.traits import has
from outplace.model import Tensor
from outplace.runtime.locate import names, sites
from outplace.runtime.patches import untracked_writes
from outplace.runtime.patches.table import Patch, replaced
from outplace.runtime.record import hidden_writes, log
from outplace.runtime.record.log import Instruction, Write
from outplace.runtime.record.snapshots import PLAIN, same_piece
from outplace.runtime.record.storages import storage_of
from outplace.runtime.record.untracked_aliases import Weak
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.fetched_arrays import FetchedArrays
from outplace.runtime.silent.marks import items_of

_MOST = 10_000

_BATCHES: Any = "batches"
_ARRAYS: Any = "arrays"
_COPY = {"copy": "buffer.clone()"}

Part = tuple[int, Instruction]
"""The start of a write in its memory, and the writing line."""


class _Memory:
    """A memory that a fetch has written: its version afterwards, and the fetch in which each part was first scaled."""

    __slots__ = ("patched", "renewed_in", "scaled", "version")

    def __init__(self) -> None:
        self.version, self.renewed_in = 0, -1
        self.patched: dict[Instruction, tuple[int, Any]] = {}
        """For each line that puts a number into a part: the fetch in which it did, and the part."""
        self.scaled: dict[Part, int] = {}


def _ends(last: Write, write: Write) -> bool:
    """Is it the second half of `x[i] *= 2`, whose first half has already written that part?"""
    again = write.operation == "__setitem__" and last.operation.startswith("__i")
    return again and last.storage == write.storage and last.before == (write.before or 0) - 1


def _kind_of(write: Write) -> str:
    """Does the write change the old values each time (`scales`), or refill the memory (`renews`)?"""
    if write.operation != "__setitem__":
        again = changes_again(write.operation)
        renews = write.operation == "out=" or has(write.operation, "replaces")
        return "scales" if again else "renews" if renews else ""
    statement = sites.at_instruction(write.frames[-1], write.operation).statement
    if not isinstance(statement, ast.AugAssign):
        slices = [] if write.region is None else [part for part in write.region.key if isinstance(part, slice)]
        number = isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
        return "patches" if number and any(part != slice(None) for part in slices) else "renews"
    return "scales" if isinstance(statement.op, ast.Mult | ast.Div | ast.Sub | ast.Pow) else ""


class Detector(detector.Detector):
    """Compares the writes of a fetch with those of earlier fetches."""

    def __init__(self) -> None:
        self._memories: dict[int, _Memory] = {}
        self._fetches = itertools.count()
        self.waiting: dict[Instruction, Write] = {}
        """Lines that wrote the same part in an earlier fetch. They are reported when the next backward starts.

        The entry `_BATCHES` says that a batch was filled in place, `_ARRAYS` that arrays were changed once more."""
        self._arrays = FetchedArrays()
        self._of_arrays: dict[Instruction, None] = {}
        """The lines that did so."""
        self._told: set[Instruction] = set()
        self._batches: deque[tuple[Weak, list[Write]]] = deque(maxlen=8)
        """The last batches that lie in memory which a fetch has filled, with the writes."""

    def patches(self) -> Iterator[Patch]:
        """The patches of torch."""
        why = "A dataset may change its samples in place while a batch is fetched."
        yield replaced(fetching._MapDatasetFetcher, "fetch", self._make_fetch, why)

    def _make_fetch(self, original: Any) -> Any:
        @functools.wraps(original)
        def fetch(fetcher: Any, possibly_batched_index: Any) -> Any:
            before, note = len(log.current().writes), self._note_array
            untracked_writes.during_fetch.append(note)
            try:
                batch = original(fetcher, possibly_batched_index)
            finally:
                untracked_writes.during_fetch.remove(note)
                scan.guarded(self._end_arrays)
            if len(log.current().writes) > before:
                scan.guarded(lambda: self._note(log.current().writes[before:]))
                scan.guarded(lambda: self._note_batch(batch, log.current().writes[before:]))
            return batch

        return fetch

    def _note_array(self, array: Any, frame: FrameType) -> None:
        scan.guarded(partial(self._arrays.note, array, frame))

    def _end_arrays(self) -> None:
        lines = self._arrays.end()
        self._of_arrays.update(dict.fromkeys(lines))
        if lines:
            self.waiting.setdefault(_ARRAYS, Write(0, None, 0, hidden_writes.ARRAY, tuple(lines[:1]), None, False))

    def _note(self, written: list[Write]) -> None:
        """Did the same line scale the same part in an earlier fetch?"""
        fetch = next(self._fetches)
        last: Write | None = None
        for write in written:
            if not write.frames or write.before is None:
                continue
            memory = self._memory_of(write.storage, write.before)
            how = "" if last is not None and _ends(last, write) else _kind_of(write)
            last, line = write, write.frames[-1]
            if how == "renews":
                memory.renewed_in = fetch
            elif how == "scales" and memory.renewed_in != fetch:
                first = memory.scaled.setdefault((write.region.offset if write.region else 0, line), fetch)
                if first < fetch and line not in self._told:
                    self.waiting.setdefault(line, write)
            elif how == "patches" and memory.renewed_in != fetch:
                first, part = memory.patched.setdefault(line, (fetch, write.region))
                if first < fetch and part != write.region and line not in self._told:
                    self.waiting.setdefault(line, write)

    def _note_batch(self, made: Any, written: list[Write]) -> None:
        """Does the batch lie in memory that this fetch has filled?"""
        for item in (made, *items_of(made)):
            storage = storage_of(item) if type(item) in PLAIN else None
            filled = [write for write in written if write.storage == storage and write.frames]
            if filled:
                self._batches.append((Weak(item), filled))
                self.waiting[_BATCHES] = filled[-1]

    def _kept_batch(self) -> tuple[torch.Tensor, list[Write]] | None:
        """A batch that is still alive, in memory that was filled anew for the next one."""
        alive = [(batch, filled) for reference, filled in self._batches if (batch := reference()) is not None]
        for (earlier, _), (later, filled) in itertools.combinations(alive, 2):
            if earlier is not later and same_piece(earlier, later):
                return later, filled
        return None

    def _memory_of(self, storage: int, version: int) -> _Memory:
        """What is known of a memory that is about to be written at this version."""
        memory = self._memories.get(storage)
        if memory is None or version < memory.version:  # a new tensor, whatever was at this address before
            if len(self._memories) >= _MOST:
                self._memories.clear()
            memory = self._memories[storage] = _Memory()
        memory.version = version + 1
        return memory

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """A training uses samples that were scaled more than once, or batches of which only the last is left."""
        if self.waiting.pop(_BATCHES, None) is not None:
            kept = self._kept_batch()
            if kept is not None:
                tensor = names.described(kept[0], scan.target_of(kept[1][-1]))
                reporting.tell(SAME_VIEW_APPENDED, tensor, scan.mutations_of(kept[1]), _COPY)
        if self.waiting.pop(_ARRAYS, None) is not None:
            lines, self._of_arrays = list(self._of_arrays), {}
            written = [Write(0, None, 0, hidden_writes.ARRAY, (line,), None, False) for line in lines]
            reporting.tell(ARRAY_PART_WRITTEN, Tensor(scan.target_of(written[-1])), scan.mutations_of(written))
        found = [(line, self.waiting.pop(line)) for line in list(self.waiting)]
        self._told.update(line for line, _ in found)
        scaled = [write for _, write in found]
        if scaled:
            name = scan.target_of(scaled[-1])
            reporting.tell(DATASET_SAMPLE_WRITTEN, Tensor(name), scan.mutations_of(scaled))
