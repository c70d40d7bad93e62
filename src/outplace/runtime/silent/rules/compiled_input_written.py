"""Memory that a compiled region keeps for its backward, with a version counter of its own, and that is then written."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import torch

from outplace.knowledge.silent_rules.functions import COMPILED_INPUT_WRITTEN
from outplace.model import Mutation, SavedTensor
from outplace.runtime.locate import graph, names, replays, writers
from outplace.runtime.locate.node_expressions import made_at
from outplace.runtime.record import hidden_writes, log, regions
from outplace.runtime.record.log import Write
from outplace.runtime.record.overlap import written_apart
from outplace.runtime.record.snapshots import Contents, copyable, unobserved
from outplace.runtime.record.storages import storage_of
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.compare_gradients import Hit, how_far

_LATEST = 8
"""Writes are compared with the memory that this many latest calls were given."""


class Detector(detector.Detector):
    """Compares what the nodes of compiled regions hold with the writes and steps since."""

    def __init__(self) -> None:
        self.waiting = regions.calls
        self._before: deque[tuple[Write, Contents]] = deque(maxlen=100)

    def on_plain_write(self, write: Write, tensor: torch.Tensor) -> None:
        """Copies what a write overwrites, if the latest calls were given this memory."""
        if regions.calls and write.frames:
            scan.guarded(partial(self._copy, write, tensor))

    def _copy(self, write: Write, tensor: torch.Tensor) -> None:
        if not copyable(tensor):
            return
        memory = tensor.untyped_storage()
        start, stop = memory.data_ptr(), memory.data_ptr() + memory.nbytes()
        arguments = any(any(call.positions(start, stop)) for call in islice(reversed(regions.calls), _LATEST))
        if arguments and hidden_writes.worth_a_look(write.frames[-1]) and hidden_writes.reserve_copy(tensor):
            with unobserved():
                self._before.append((write, Contents.of(tensor)))

    def wants_to_look(self) -> bool:
        """Was anything written since the latest call, or since the first call after the previous backward?"""
        record = log.current()
        before = record.backwards[-2].moment if len(record.backwards) > 1 else -1
        since = next((call.start for call in regions.calls if call.start >= before), regions.calls[-1].start)
        since = min(since, regions.calls[-1].start)
        return any(entries and entries[-1].moment > since for entries in (record.writes, record.steps))

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """Has something changed that a compiled node of this graph holds, and will PyTorch not see it?"""
        for node in nodes if self.wants_to_look() else ():  # another detector may have wanted to look
            number = graph.number_of(node)
            if number is None or not replays.is_compiled(node):
                continue
            seen = {slot.saved_as for slot in graph.stale_slots(node)}
            for saved_as, alias in _held(node):
                if saved_as not in seen:
                    self._compare(node, number, saved_as, alias)

    def _compare(self, node: Any, number: int, saved_as: str, alias: torch.Tensor) -> None:
        storage = storage_of(alias)
        written = [write for write in _writes(number, alias) if write.frames]
        mutations = (*scan.mutations_of(written), *scan.steps_on({storage}, number))
        if mutations:
            old = [contents.into(alias) for write, contents in self._before if write in written]
            known = len(old) == len(written) and len(mutations) <= len(written)
            hit = Hit(node, saved_as, alias, written, written, old if known else None, number)
            hit.wait()
            scan.at_end_of_backward(partial(_tell, hit, mutations, _savers(node, number, saved_as, alias)))


def _held(node: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """What a compiled node holds. Its own list has tensors that PyTorch never checks."""
    yield from graph.held(node)
    for place, tensor in enumerate(getattr(node, "_tensors_no_vc_check", ())):
        yield f"unchecked[{place}]", tensor


def _writes(number: int, alias: torch.Tensor) -> list[Write]:
    """The writes since this node that reach the memory of this tensor, those of other compiled regions included."""
    storage, own = storage_of(alias), regions.call_here(number)
    found = [write for write in log.current().writes if write.storage == storage and write.moment > number]
    ended = number if own is None else own.end
    outside = [write for write in found if write.moment >= ended and not regions.is_inside(write.frames)]
    if outside and written_apart([(0, alias)], [(1, write.region) for write in outside]):
        outside = []
    later = [call for call in regions.calls_since(ended) if call is not own and call.start >= ended]
    return [*outside, *(write for call in later for write in replays.writes_in_region(call, alias))]


def _savers(node: Any, number: int, saved_as: str, alias: torch.Tensor) -> list[SavedTensor]:
    inside = replays.savers_in_region(node, alias) or [replays.Saved(node, saved_as)]
    found = [
        SavedTensor(item.name(), name, None, made_at(writers.place_of(item), item.name()), number)
        for item, name in inside
    ]
    return list(dict.fromkeys(found))


def _tell(hit: Hit, mutations: tuple[Mutation, ...], savers: list[SavedTensor]) -> None:
    hit.done()
    if hit.reached and not hit.harmless:
        tensor = names.described(hit.alias, scan.target_of(hit.writes[-1]) if hit.writes else None)
        if hit.patches:  # of the tensor that is written; the region keeps a view of it
            tensor = replace(tensor, shape=hit.patches[-1].size)
        facts: dict[str, Any] = {"saved_by": savers[0], "also_saved_by": tuple(savers[1:]), "notes": how_far([hit])}
        reporting.tell(COMPILED_INPUT_WRITTEN, tensor, mutations, **facts)
