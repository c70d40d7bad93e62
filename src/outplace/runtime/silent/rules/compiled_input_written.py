"""Memory that is kept for a backward with a version counter of its own, and that is then written.

Compiled regions keep such memory, Functions of the user inside them, and `torch.func.vjp`.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from types import FrameType
from typing import Any

import torch
from torch._functorch.eager_transforms import _autograd_grad

from outplace.knowledge.silent_rules.functions import COMPILED_INPUT_WRITTEN
from outplace.model import Mutation, SavedTensor
from outplace.runtime.locate import graph, names, replays
from outplace.runtime.locate.savers import savers
from outplace.runtime.record import hidden_writes, log, regions
from outplace.runtime.record.log import Write
from outplace.runtime.record.overlap import written_apart
from outplace.runtime.record.snapshots import Contents, copyable, unobserved
from outplace.runtime.record.storages import is_wrapped, storage_of, unwrapped
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.compare_gradients import Hit, how_far, needs_contents

_LATEST = 8
"""Writes are compared with the memory that this many latest calls were given."""


class Detector(detector.Detector):
    """Compares what the nodes of compiled regions hold with the writes and steps since."""

    def __init__(self) -> None:
        self.waiting = _Waiting()
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
        """Was anything written since such memory was kept, or has a new region Functions of the user?"""
        return bool(regions.with_functions) or _is_pulled_back() or self._written_since_call()

    def _written_since_call(self) -> bool:
        """Was anything written since the latest call, or since the first call after the previous backward?"""
        record = log.current()
        if not regions.calls:
            return False
        before = record.backwards[-2].moment if len(record.backwards) > 1 else -1
        since = regions.calls[-1].start
        for call in reversed(regions.calls):
            if call.start < before:
                break
            since = min(since, call.start)
        return any(entries and entries[-1].moment > since for entries in (record.writes, record.steps))

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """Has something changed that a compiled node of this graph holds, and will PyTorch not see it?"""
        for node in nodes if self.wants_to_look() else ():  # another detector may have wanted to look
            number = graph.number_of(node)
            if regions.with_functions:
                _look_inside(number)
            held = () if number is None else tuple(_unchecked(node))
            seen = {slot.saved_as for slot in graph.stale_slots(node)} if held else ()
            for saved_as, alias in held:
                if saved_as not in seen:
                    self._compare(node, number or 0, saved_as, alias)

    def _compare(self, node: Any, number: int, saved_as: str, alias: torch.Tensor) -> None:
        storage = storage_of(alias)
        written = [write for write in _writes(number, alias) if write.frames]
        mutations = (*scan.mutations_of(written), *scan.steps_on({storage}, number))
        if mutations:
            old = [contents.into(alias) for write, contents in self._before if write in written]
            known = len(old) == len(written) and len(mutations) <= len(written)
            hit = Hit(node, saved_as, alias, written, written, old if known else None, number)
            hit.wait()
            scan.at_end_of_backward(partial(_tell, hit, mutations, savers(node, saved_as, alias)))


class _Waiting:
    """Is there a compiled region whose backward may start, or is a `vjp` pulled back?"""

    def __len__(self) -> int:
        return len(regions.calls) or _is_pulled_back()


def _is_pulled_back() -> bool:
    """Does `torch.func` run the backward that is starting? It is called by `torch.autograd.grad`."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not torch.autograd.graph._engine_run_backward.__code__:
        frame = frame.f_back
    caller = None if frame is None or frame.f_back is None else frame.f_back.f_back
    return caller is not None and caller.f_code is _autograd_grad.__code__


def _unchecked(node: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """What a node holds, where PyTorch may not check its version."""
    every = replays.is_compiled(node) or graph.is_inlined_function(node)
    for saved_as, tensor in graph.held(node):
        if every or is_wrapped(tensor):
            yield saved_as, unwrapped(tensor)
    for place, tensor in enumerate(getattr(node, "_tensors_no_vc_check", ())):
        yield f"unchecked[{place}]", tensor


def _look_inside(number: int | None) -> None:
    """Looks once at a region with Functions of the user: is what they save written further down in it?"""
    call = None if number is None else regions.call_here(number)
    if call is None or call.region not in regions.with_functions:
        return
    regions.with_functions.remove(call.region)
    again = replays.replay(call.region)
    for made, node in again.nodes.items():
        for saved_as, alias in graph.held(node) if graph.is_inlined_function(node) else ():
            after = [write for write in again.writes if write.moment > made and write.storage == storage_of(alias)]
            written = [known for write in after if (known := replays.with_call(write, replays.called_at(call))).frames]
            apart = written_apart([(0, alias)], [(1, write.region) for write in written])
            if written and not apart and needs_contents(node, alias):
                tensor = names.described(alias, scan.target_of(written[-1]))
                facts: dict[str, Any] = {"saved_by": savers(node, saved_as, alias)[0]}
                tell = partial(reporting.tell, COMPILED_INPUT_WRITTEN, tensor, scan.mutations_of(written), **facts)
                scan.at_end_of_backward(tell)


def _writes(number: int, alias: torch.Tensor) -> list[Write]:
    """The writes since this node that reach the memory of this tensor, those of other compiled regions included."""
    storage, own = storage_of(alias), regions.call_here(number)
    found = [write for write in log.current().writes if write.storage == storage and write.moment > number]
    ended = number if own is None else own.end
    outside = [write for write in found if write.moment >= ended and not regions.is_inside(write)]
    if outside and written_apart([(0, alias)], [(1, write.region) for write in outside]):
        outside = []
    later = [call for call in regions.calls_since(ended) if call is not own and call.start >= ended]
    return [*outside, *(write for call in later for write in replays.writes_in_region(call, alias))]


def _tell(hit: Hit, mutations: tuple[Mutation, ...], savers: list[SavedTensor]) -> None:
    hit.done()
    if hit.reached and not hit.harmless:
        tensor = names.described(hit.alias, scan.target_of(hit.writes[-1]) if hit.writes else None)
        if hit.patches:  # of the tensor that is written; the region keeps a view of it
            tensor = replace(tensor, shape=hit.patches[-1].size)
        facts: dict[str, Any] = {"saved_by": savers[0], "also_saved_by": tuple(savers[1:]), "notes": how_far([hit])}
        reporting.tell(COMPILED_INPUT_WRITTEN, tensor, mutations, **facts)
