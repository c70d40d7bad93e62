"""Samples that a dataset keeps, and that are scaled in place whenever they are handed out.

`target["boxes"] *= scale` in a transform changes the boxes of the dataset itself: in the next epoch they are scaled
once more. A line that writes the same part of a memory in a later fetch of a `DataLoader`, whose version has gone on
from there, is one. A copy that is made for each fetch begins at version 0 again, and a buffer is filled anew before.
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from torch.utils.data._utils import fetch as fetching

from outplace.knowledge.derivatives import changes_again
from outplace.knowledge.silent_rules.two_names import DATASET_SAMPLE_WRITTEN
from outplace.knowledge.traits import has
from outplace.model import Tensor
from outplace.runtime.locate import sites
from outplace.runtime.patches.table import Patch, replaced
from outplace.runtime.record import log
from outplace.runtime.record.log import Instruction, Write
from outplace.runtime.silent import detector, reporting, scan

_MOST = 10_000

Part = tuple[int, Instruction]
"""Where in its memory a write begins, and the line that writes."""


class _Memory:
    """A memory that a fetch has written: its version after that, and in which fetch each part was scaled first."""

    __slots__ = ("renewed_in", "scaled", "version")

    def __init__(self) -> None:
        self.version, self.renewed_in = 0, -1
        self.scaled: dict[Part, int] = {}


def _ends(last: Write, write: Write) -> bool:
    """Is it the second half of `x[i] *= 2`, whose first half has written that part already?"""
    again = write.operation == "__setitem__" and last.operation.startswith("__i")
    return again and last.storage == write.storage and last.before == (write.before or 0) - 1


def _kind_of(write: Write) -> str:
    """Does it make something else of what was there, each time (`scales`), or fill it anew (`renews`)?"""
    if write.operation != "__setitem__":
        again = changes_again(write.operation)
        renews = write.operation == "out=" or has(write.operation, "replaces")
        return "scales" if again else "renews" if renews else ""
    statement = sites.at_instruction(write.frames[-1], write.operation).statement
    if not isinstance(statement, ast.AugAssign):
        return "renews"
    return "scales" if isinstance(statement.op, ast.Mult | ast.Div | ast.Sub | ast.Pow) else ""


class Detector(detector.Detector):
    """Compares what a fetch writes with what earlier fetches wrote."""

    def __init__(self) -> None:
        self._memories: dict[int, _Memory] = {}
        self._fetches = itertools.count()
        self.waiting: dict[Instruction, Write] = {}
        """Lines that have written what they had written in an earlier fetch: told when the next backward starts."""
        self._told: set[Instruction] = set()

    def patches(self) -> Iterator[Patch]:
        """What is changed in torch."""
        why = "A dataset may change its samples in place while a batch is fetched."
        yield replaced(fetching._MapDatasetFetcher, "fetch", self._make_fetch, why)

    def _make_fetch(self, original: Any) -> Any:
        @functools.wraps(original)
        def fetch(fetcher: Any, possibly_batched_index: Any) -> Any:
            before = len(log.current().writes)
            made = original(fetcher, possibly_batched_index)
            if len(log.current().writes) > before:
                scan.guarded(lambda: self._note(log.current().writes[before:]))
            return made

        return fetch

    def _note(self, written: list[Write]) -> None:
        """What a fetch has written: was the same part scaled by the same line in an earlier one?"""
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

    def _memory_of(self, storage: int, version: int) -> _Memory:
        """What is known of a memory that is about to be written at this version."""
        memory = self._memories.get(storage)
        if memory is None or version < memory.version:  # a new tensor, whatever lay there before
            if len(self._memories) >= _MOST:
                self._memories.clear()
            memory = self._memories[storage] = _Memory()
        memory.version = version + 1
        return memory

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """A training goes on with samples that have been scaled more than once."""
        found = [(line, self.waiting.pop(line)) for line in list(self.waiting)]
        self._told.update(line for line, _ in found)
        scaled = [write for _, write in found]
        if scaled:
            name = scan.target_of(scaled[-1])
            reporting.tell(DATASET_SAMPLE_WRITTEN, Tensor(name), scan.mutations_of(scaled))
