"""Samples that a dataset keeps, and that are scaled in place whenever they are handed out.

`target["boxes"] *= scale` in a transform changes the boxes of the dataset itself: in the next epoch they are scaled
once more. A line that writes the same memory in a later fetch of a `DataLoader`, at a higher version than before, is
one. A copy that is made for each fetch begins at the same version each time, and a buffer is filled anew before.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable
from typing import Any

from torch.utils.data._utils import fetch as fetching

from outplace.knowledge.names import spellings
from outplace.model import Tensor
from outplace.runtime import record, silent, sites, verdict, writes
from outplace.runtime.record import Instruction, Write

_MOST = 10_000
_SCALING = {
    "mul_", "multiply_", "div_", "divide_", "true_divide_", "sub_", "subtract_", "pow_", "exp_", "log_", "sqrt_",
    "square_", "neg_",
}  # fmt: skip
"""Writes that make something else of what they have made before; those that add may count, and others do it once."""
_FILLING = {"copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "out="}

_seen: dict[tuple[int, Instruction], int] = {}
"""For each memory and line that a fetch has written: the highest version before it."""
_again: dict[Instruction, Write] = {}
"""Lines that have written what they had written in an earlier fetch: told when the next backward starts."""
_told: set[Instruction] = set()


def install() -> None:
    """Starts looking at what is fetched."""
    for one in (_seen, _again, _told):
        one.clear()
    fetcher = fetching._MapDatasetFetcher
    writes.replace(fetcher, "fetch", _make_fetch(fetcher.fetch))
    silent.also_look(_again, lambda: True, look)


def _make_fetch(original: Any) -> Any:
    @functools.wraps(original)
    def fetch(self: Any, possibly_batched_index: Any) -> Any:
        before = len(record.current().writes)
        made = original(self, possibly_batched_index)
        if len(record.current().writes) > before:
            silent.guarded(lambda: _note(record.current().writes[before:]))
        return made

    return fetch


def _note(written: list[Write]) -> None:
    """What a fetch has written: was the same memory written by the same line in an earlier one?"""
    highest: dict[tuple[int, Instruction], int] = {}
    renewed: set[int] = set()
    for write in written:
        if not write.frames or write.before is None or write.storage in renewed:
            continue
        how = _kind_of(write)
        if how == "renews":
            renewed.add(write.storage)
        if how != "scales":
            continue
        key = write.storage, write.frames[-1]
        if write.before > _seen.get(key, write.before) and key[1] not in _told:
            _again.setdefault(key[1], write)
        highest[key] = max(write.before, highest.get(key, 0))
    for key, version in highest.items():
        if key in _seen or len(_seen) < _MOST:
            _seen[key] = version


def look(nodes: Iterable[Any]) -> None:
    """A backward starts: with samples that have been scaled more than once."""
    found = [(line, _again.pop(line)) for line in list(_again)]
    _told.update(line for line, _ in found)
    scaled = [write for _, write in found]
    if scaled:
        why = (
            "A dataset hands out what it keeps, and this changes it in place: each time the same sample is fetched, it "
            "has been changed already, and is changed once more."
        )
        remedy = "Hand out copies: `sample = copy.deepcopy(self.samples[index])`, or write out of place."
        name = silent.target_of(scaled[-1])
        verdict.tell("silent-other", Tensor(name), why, silent.mutations_of(scaled), remedy, cause="sample")


def _kind_of(write: Write) -> str:
    """Does it make something else of what was there, each time (`scales`), or fill it anew (`renews`)?"""
    if write.operation != "__setitem__":
        name = spellings(write.operation)[0]
        return "scales" if name in _SCALING else "renews" if name in _FILLING else ""
    statement = sites.at_instruction(write.frames[-1], write.operation).statement
    if not isinstance(statement, ast.AugAssign):
        return "renews"
    return "scales" if isinstance(statement.op, ast.Mult | ast.Div | ast.Sub | ast.Pow) else ""
