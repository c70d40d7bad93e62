"""What wrote a storage since it was saved: recorded writes, optimizer steps, backward itself, or graph nodes."""

from __future__ import annotations

import contextlib
import functools
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from outplace.knowledge.names import spellings
from outplace.knowledge.nodes import by_node
from outplace.runtime.locate import graph, names, replays
from outplace.runtime.locate.graph import Slot
from outplace.runtime.patches import anomaly_tags, saved_tensor_hooks
from outplace.runtime.record import log, node_threads, regions
from outplace.runtime.record.log import Backward, Place, Step, ThreadRecord, Write
from outplace.runtime.record.operator_calls import lines_inside
from outplace.runtime.record.storages import storage_of
from outplace.runtime.record.user_files import HANDING_ON


class NodeWrite(NamedTuple):
    """A write that only the graph shows, by the node it left in the tensor's history."""

    operation: str
    place: Place


AnyWrite = Write | Step | Backward | NodeWrite


@dataclass
class OverwrittenSaves:
    """One storage that was written after it was saved: its stale slots and those writes."""

    slots: list[Slot]
    writes: list[tuple[AnyWrite, int]] = field(default_factory=list)
    """Each write with the version after it."""
    unseen: int = 0

    @functools.cached_property
    def base(self) -> torch.Tensor | None:
        """The tensor itself, not a view of it."""
        alias = self.slots[0].alias
        if alias is None or alias._base is not None:
            return None if alias is None else alias._base
        if saved_tensor_hooks.TELLS:
            return alias
        # Before torch 2.10 the alias has no history. Other tensors in the same memory show what it is.
        return next((tensor for tensor in _whole_tensors(self.storage) if tensor.requires_grad), alias)

    @property
    def storage(self) -> int | None:
        """The storage that was written."""
        return self.slots[0].storage

    @property
    def oldest(self) -> int:
        """The smallest number of the nodes that saved it."""
        return min((number for slot in self.slots if (number := graph.number_of(slot.node)) is not None), default=-1)


def overwritten_saves(slots: list[Slot]) -> OverwrittenSaves:
    """The writes between the oldest save and now."""
    saves = OverwrittenSaves(sorted(slots, key=lambda slot: graph.number_of(slot.node) or 0, reverse=True))
    errors = [slot.error for slot in slots if slot.error is not None]
    if not errors:  # detach_ changes no version; its call is in the record
        saves.writes = _detaching_writes(slots)
        return saves
    first, now = min(error.expected for error in errors), max(error.version for error in errors)
    missing = _add_recorded_writes(saves, first, now)
    saves.unseen = len(_add_unrecorded_writes(saves, missing))
    saves.writes = [inner for write, left in saves.writes for inner in _in_region(saves, write, left)]
    saves.writes.sort(key=lambda entry: entry[1])
    return saves


def _detaching_writes(slots: list[Slot]) -> list[tuple[AnyWrite, int]]:
    calls = {id(write): write for slot in slots for write in detaching(slot)}
    return [(write, write.before or 0) for write in calls.values()]


def _add_recorded_writes(saves: OverwrittenSaves, first: int, now: int) -> list[int]:
    """Adds the writes and steps of the record between two versions. Returns the versions that none of them left."""
    recorded = _writes_to(saves)
    found = [(write, (write.before or 0) + 1) for write in recorded if first <= (write.before or 0) < now]
    covered = {left for _, left in found}
    saves.writes = list(_one_for_each_call(found, recorded))
    for step, before, after in _steps_of(saves, first, now):
        saves.writes.append((step, after))
        covered.update(range(before + 1, after + 1))
    return [version for version in range(first + 1, now + 1) if version not in covered]


def _one_for_each_call(found: list[tuple[Write, int]], recorded: list[Write]) -> Iterator[tuple[Write, int]]:
    """The writes, with those of one operator call as one: the call's last version, and a line inside the operator."""
    last = {id(write.call): left for write, left in found if write.call is not None}
    deepest: dict[int, Write] = {}
    for write in recorded:
        known = deepest.setdefault(id(write.call), write)
        if len(write.frames) > len(known.frames):
            deepest[id(write.call)] = write
    for write, left in found:
        if write.call is None:
            yield write, left
        elif last[id(write.call)] == left:
            yield deepest[id(write.call)], left


def _add_unrecorded_writes(saves: OverwrittenSaves, missing: list[int]) -> list[int]:
    """Adds the writes that explain the missing versions. Returns the versions that are still missing."""
    missing = _add_region_writes(saves, missing)
    for look in (_gradient_writes, _marked_dirty, _node_writes):
        writes = look(saves, missing) if missing else []
        explained = {left for _, left in writes}
        missing = [version for version in missing if version not in explained]
        saves.writes.extend(writes)
    return missing


def writes_between(storage: int | None, first: int, now: int) -> list[Write]:
    """The writes that took a storage from one version to another. The storage has been alive since the first."""
    writes = [write for thread in log.all_threads() for write in thread.writes_to(storage)]
    return _once_a_version([write for write in writes if write.frames and first <= (write.before or 0) < now])


def detaching(slot: Slot) -> list[Write]:
    """The calls of `detach_` on the tensor in this slot."""
    return [write for write in _writes_to(OverwrittenSaves([slot])) if write.operation == "detach_"]


def _writes_to(saves: OverwrittenSaves) -> list[Write]:
    """The writes to this storage since it was saved. Before that, another storage may have had the same address.

    Other threads count their moments separately. From them the last write at each version is taken, and only if this
    thread has none and exactly one other thread has: other writes may belong to a storage that is gone.
    """
    mine, *others = log.all_threads()
    storage, oldest = saves.storage, saves.oldest
    writes = [write for write in mine.writes_to(storage) if write.moment >= oldest]
    found = [write for write in writes if write.moment > oldest or _saves_itself(write, saves)]
    found = _once_a_version([_at_its_line(write, oldest) for write in found])
    seen = {write.before for write in found}
    elsewhere: dict[int | None, list[Write]] = {}
    for other in others:
        last = {write.before: write for write in other.writes_to(storage)}
        for before, write in last.items():
            elsewhere.setdefault(before, []).append(write)
    return found + [writes[0] for before, writes in elsewhere.items() if before not in seen and len(writes) == 1]


def _at_its_line(write: Write, saved: int) -> Write:
    """The write as it is reported. If the operator that wrote also saved, its own line is named, not the call's."""
    if write.call is None or write.call.moment > saved:
        return write
    return write._replace(frames=lines_inside(write.frames), call=None)


def _once_a_version(writes: list[Write]) -> list[Write]:
    """One write for each version. If two writes found the same version, the first one failed.

    Or both are the same write: a `__torch_function__` carries out an assignment, which is recorded in both places.
    """
    kept: dict[int | None, Write] = {}
    for write in writes:
        if write.before not in kept or not _hands_on(write):
            kept[write.before] = write
    return list(kept.values())


def _hands_on(write: Write) -> bool:
    """Did a `__torch_function__` of the user carry it out for other code?"""
    return bool(write.frames) and write.frames[-1][0].co_name in HANDING_ON


def _saves_itself(write: Write, saves: OverwrittenSaves) -> bool:
    """Is the write the operation that saved the tensor: `h.mul_(h)` saves and overwrites its second operand?"""
    own_nodes = [slot.node for slot in saves.slots if graph.number_of(slot.node) == write.moment]
    return write.grad_enabled and any(f"{by_node(node.name()).op}_" in spellings(write.operation) for node in own_nodes)


def _steps_of(saves: OverwrittenSaves, first: int, now: int) -> Iterable[tuple[Step, int, int]]:
    for thread in log.all_threads():
        for step in thread.steps:
            for reference, before, after in step.versions():
                if before < now and after > first and before != after:
                    parameter = reference()
                    if parameter is not None and storage_of(parameter) == saves.storage:
                        yield step, max(before, first), min(after, now)


def _gradient_writes(saves: OverwrittenSaves, missing: list[int]) -> Sequence[tuple[AnyWrite, int]]:
    """Backward itself writes: it adds to an existing `.grad`."""
    if saves.storage not in _living().gradients:
        return []
    later = [backward for backward in log.current().backwards[:-1] if backward.moment > saves.oldest]
    return list(zip(later[-len(missing) :], missing, strict=True)) if len(later) >= len(missing) else []


def _marked_dirty(saves: OverwrittenSaves, missing: list[int]) -> Sequence[tuple[AnyWrite, int]]:
    """A Function's `mark_dirty` adds one to the version, for the write that its forward made."""
    functions = [graph.number_of(node) or 0 for node in _history(saves) if by_node(node.name()).origin == "function"]
    inside = [
        (write, left + 1)
        for write, left in saves.writes
        if isinstance(write, Write) and not write.grad_enabled and any(number < write.moment for number in functions)
    ]
    return [(write, version) for write, version in inside if version in missing][: len(functions)]


def _in_region(saves: OverwrittenSaves, write: AnyWrite, left: int) -> list[tuple[AnyWrite, int]]:
    """A write that a compiled region made: the lines of the region that wrote this memory."""
    alias = saves.slots[0].alias
    if not isinstance(write, Write) or alias is None or not regions.is_inside(write):
        return [(write, left)]
    calls = [call for call in regions.calls_since(write.moment) if call.start <= write.moment]
    inner = replays.same_write(calls[-1], write) or replays.writes_in_region(calls[-1], alias) if calls else []
    return [(item, left) for item in inner] or [(write, left)]


def _add_region_writes(saves: OverwrittenSaves, missing: list[int]) -> list[int]:
    """Compiled regions write their inputs unseen, and each call may add more than one to the version."""
    alias = saves.slots[0].alias
    calls = regions.calls_since(saves.oldest + 1) if missing and alias is not None else []
    writing = [writes for call in calls if (writes := replays.writes_in_region(call, alias))]
    if not writing or len(missing) % len(writing):
        return missing
    each = len(missing) // len(writing)
    for turn, writes in enumerate(writing):
        saves.writes.extend((write, missing[(turn + 1) * each - 1]) for write in writes)
    return []


def _node_writes(saves: OverwrittenSaves, missing: list[int]) -> Sequence[tuple[AnyWrite, int]]:
    """Writes that the record did not see (TorchScript, `torch.ops`, C++) have left nodes in the tensor's history."""
    nodes = _history(saves)
    numbers = [graph.number_of(node) or 0 for node in nodes]
    recorded: list[int] = []
    for moment in sorted(w.moment for w, _ in saves.writes if isinstance(w, Write) and w.grad_enabled):
        recorded.append(bisect_left(numbers, moment, recorded[-1] + 1 if recorded else 0))
        if recorded[-1] >= len(numbers):
            break
    known = set(recorded)
    nodes = [node for place, node in enumerate(nodes) if place not in known]
    if len(nodes) != len(missing):
        return []  # a write left no node: no line is better than a wrong one
    made_by = [NodeWrite(f"{by_node(node.name()).op}_", place_of(node)) for node in nodes]
    return [(write, version) for write, version in zip(made_by, missing, strict=True) if write.place is not None]


def _history(saves: OverwrittenSaves) -> list[Any]:
    """The nodes of the writes since the tensor was saved, oldest first."""
    node = next((t.grad_fn for t in _whole_tensors(saves.storage) if t.grad_fn is not None), None)
    nodes: list[Any] = []
    while node is not None and (graph.number_of(node) or 0) > saves.oldest:
        nodes.append(node)
        node = node.next_functions[0][0] if node.next_functions else None
    return nodes[::-1]


def _whole_tensors(storage: int | None) -> list[torch.Tensor]:
    """The program's tensors in this storage that are not views."""
    return _living().whole.get(storage, [])


class _Living(NamedTuple):
    """The program's tensors that are not views, by their storage, and the storages of all gradients."""

    whole: dict[int | None, list[torch.Tensor]]
    gradients: set[int | None]


_looked: list[list[_Living]] = []


@contextlib.contextmanager
def looking_once() -> Iterator[None]:
    """In this block the program's tensors are looked for only once. A report asks about thousands of storages."""
    _looked.append([])
    try:
        yield
    finally:
        _looked.pop()


def _living() -> _Living:
    if not _looked:
        return _look()
    if not _looked[-1]:
        _looked[-1].append(_look())
    return _looked[-1][0]


def _look() -> _Living:
    whole: dict[int | None, list[torch.Tensor]] = {}
    gradients: set[int | None] = set()
    for tensor in names.live_tensors():
        if tensor._base is None:
            whole.setdefault(storage_of(tensor), []).append(tensor)
        gradient = names.gradient_of(tensor)
        if gradient is not None:
            gradients.add(storage_of(gradient))
    return _Living(whole, gradients)


# -- where nodes were made --------------------------------------------------------------------------------------------


def place_of(node: Any) -> Place:
    """Where a node was made: its line in a compiled region, its tag, or the mark that its number belongs to."""
    inside = replays.place_of(node)
    tag = anomaly_tags.tag_of(node)
    if inside is not None or tag is not None or replays.replay_with(node) is not None:
        return inside or (None if tag is None else tag.place)
    number = graph.number_of(node)
    thread = None if number is None else _thread_of(node)
    return None if thread is None or number is None else thread.place_of(number)


def is_ambiguous(node: Any) -> bool:
    """Could another thread than this one have made the node? Moments of the record tell nothing about it then."""
    return graph.number_of(node) is not None and _thread_of(node) is not log.current()


def _thread_of(node: Any) -> ThreadRecord | None:
    """The record of the thread that made this node. Where torch does not tell, several threads may have its number."""
    mine, *others = log.all_threads()
    if others and node_threads.known():
        return log.record_of(node)
    number = graph.age_of(node)
    return None if any(_could_be(other, number) for other in others) else mine


def _could_be(thread: ThreadRecord, number: int) -> bool:
    return max(thread.forgotten, 0) <= number < thread.starts[-1]
