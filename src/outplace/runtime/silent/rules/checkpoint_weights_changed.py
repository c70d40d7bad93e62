"""Checkpointed blocks run again in backward. If their weights have changed by then, they compute something else.

PyTorch checks the arguments of such a block, but not its weights. So an optimizer step between its forward and its
backward raises nothing. The graph shows which weights a block uses. They are compared with the writes since its last
node. The buffers of a block that is a module are copied when it runs: they have no node in the graph. A block may also
change by itself what it computes with: it does so once more when it runs again. Then what it saves differs from what it
saved at first, which some elements of each saved tensor show.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import FrameType, FunctionType
from typing import Any, NamedTuple

import torch
from torch.utils import checkpoint as checkpoints

from outplace.knowledge.derivatives import step_of
from outplace.knowledge.kinds import BY_NAME
from outplace.knowledge.silent_rules.functions import CHECKPOINT_WEIGHTS_CHANGED
from outplace.knowledge.traits import has
from outplace.model import Diagnosis, Mutation, SavedTensor, Tensor
from outplace.repair.syntax.flow import used_later
from outplace.runtime.locate import graph, names, sites, writers
from outplace.runtime.locate.node_expressions import made_at
from outplace.runtime.patches import saved_tensor_hooks, tensor_writes
from outplace.runtime.patches.code_injection import injected
from outplace.runtime.patches.table import Patch
from outplace.runtime.record import hidden_writes, log
from outplace.runtime.record.snapshots import copyable, same_values, sample, unobserved
from outplace.runtime.record.storages import storage_of
from outplace.runtime.record.untracked_aliases import Weak
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.operands import frame_of

_MOST, _LARGEST, _ALWAYS, _SAMPLE = 1_000, 1 << 12, 3, 64
_next_number = torch._C._autograd._get_sequence_nr


class _Ran(NamedTuple):
    """A block that has run: the object that keeps it, when it ran, its module, and its buffers with their contents."""

    keeper: Callable[[], Any]
    moment: int
    module: Callable[[], torch.nn.Module | None] = lambda: None
    buffers: tuple[tuple[Weak, torch.Tensor, int], ...] = ()
    """Each with a copy and its version."""

    def written(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """The buffers that were written since then, and what they held."""
        alive = ((reference(), before, version) for reference, before, version in self.buffers)
        return [
            (buffer, before) for buffer, before, version in alive if buffer is not None and buffer._version != version
        ]

    def changed(self) -> list[torch.Tensor]:
        """The buffers whose contents are others now."""
        return [item for item, before in self.written() if item.shape == before.shape and not item.equal(before)]


def _sample(saved: Any) -> torch.Tensor | None:
    with unobserved():
        return sample(saved, _SAMPLE) if copyable(saved) and saved.is_floating_point() else None


class _Region(NamedTuple):
    """A block that backward runs again: one of its nodes, the number of its last node, its leaves and arguments."""

    node: Any
    last: int
    leaves: list[torch.Tensor]
    arguments: list[torch.Tensor]
    ran: _Ran | None = None
    """What is known of its run, if it is a module with buffers."""


def _module_of(function: FunctionType) -> torch.nn.Module | None:
    """The module that the function of a block calls, or whose method it calls."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name not in ("fn", "function"):
            continue
        called = cell.cell_contents
        owner = called if isinstance(called, torch.nn.Module) else getattr(called, "__self__", None)
        if isinstance(owner, torch.nn.Module):
            return owner
    return None


def _ran(keeper: Any, function: Any, copies: bool) -> _Ran:
    """What is to be known of a block that is about to run. Small buffers are copied, if `copies`."""
    module = _module_of(function) if isinstance(function, FunctionType) and copies else None
    if module is None:
        return _Ran(weakref.ref(keeper), _next_number())
    buffers: list[tuple[Weak, torch.Tensor, int]] = []
    with unobserved():
        for buffer in module.buffers():
            if copyable(buffer) and buffer.numel() <= _LARGEST and not buffer.is_inference():
                buffers.append((Weak(buffer), buffer.clone(), buffer._version))
    return _Ran(weakref.ref(keeper), _next_number(), weakref.ref(module), tuple(buffers))


def _buffers_written(region: _Region) -> dict[int, tuple[torch.Tensor, tuple[Mutation, ...]]]:
    """The changed buffers with the writes since the block ran. Those of the block itself belong to its forward."""
    block = None if region.ran is None else region.ran.module()
    if region.ran is None or block is None:
        return {}
    own = {getattr(type(module).forward, "__code__", None) for module in block.modules()}
    found = {}
    for buffer in region.ran.changed():
        storage = storage_of(buffer)
        later = [write for write in log.current().writes if write.moment > region.last and write.storage == storage]
        outside = [write for write in later if write.frames and own.isdisjoint(code for code, _ in write.frames)]
        if outside:
            found[id(buffer)] = buffer, scan.mutations_of(outside)
    return found


def _block_of(node: Any) -> Any:
    """The block of this node, which the hooks of its saved tensors know."""
    for raw in graph.raw_saved(node):
        for cell in getattr(saved_tensor_hooks.hook_of(node, raw), "__closure__", None) or ():
            if isinstance(cell.cell_contents, checkpoints._CheckpointFrame):
                return cell.cell_contents
    return None


def _leaves(nodes: Iterable[Any], first: int) -> list[torch.Tensor]:
    """The leaves that these nodes use, directly or through nodes of the same block."""
    found, seen, stack = [], set(), list(nodes)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            number = graph.number_of(node)
            if number is None:
                found.append(node.variable)
            elif number >= first:
                stack += [following for following, _ in node.next_functions if following is not None]
    return [leaf for leaf in found if isinstance(leaf, torch.Tensor)]


def _running(nodes: Iterable[Any]) -> list[_Region]:
    """A reentrant block that has just run again. This is the backward of that run."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not checkpoints.CheckpointFunction.backward.__code__:
        frame = frame.f_back
    if frame is None:
        return []
    keeper = frame.f_locals["ctx"]
    return [_Region(keeper, graph.number_of(keeper) or 0, _leaves(nodes, 0), [])]


def _report(region: _Region) -> None:
    with unobserved():
        changed = [leaf for leaf in region.leaves if copyable(leaf)]
        changed.sort(key=lambda leaf: -leaf.dim())  # a weight is a better example than a bias
        written = {id(item): _written(item, region.last) for item in changed}
        for key, (buffer, mutations) in _buffers_written(region).items():
            changed.append(buffer)
            written[key] = mutations
        unseen = [write for item in (*changed, *region.arguments) for write in scan.hidden_after(region.last, item)]
    first = next((item for item in changed if written[id(item)]), None)
    mutations = scan.mutations_of(unseen) or (() if first is None else written[id(first)])
    if not mutations:
        return
    tensor = next((item for item in (*changed, *region.arguments) if scan.hidden_after(region.last, item)), first)
    assert tensor is not None
    name = names.name_in_frames(tensor, names.own_frames(None, sys._getframe(1)))
    site = made_at(writers.place_of(region.node), region.node.name())
    kept = "input" if any(tensor is argument for argument in region.arguments) else "block"
    saver = SavedTensor("checkpoint", kept, None, site, region.last)
    # A write that autograd could not see belongs to the rule for such writes.
    rule = CHECKPOINT_WEIGHTS_CHANGED
    family = BY_NAME["silent-data"] if unseen else rule
    diagnosis = Diagnosis(
        family.family,
        family.code,
        reporting.NO_ERROR,
        names.described(tensor, name),
        rule.why,
        cause="" if unseen else rule.name,
        mutations=mutations,
        saved_by=saver,
    )
    scan.at_end_of_backward(partial(reporting.report, diagnosis, rule.remedy))


def _tell_of_own_writes(written: list[tuple[log.Write, Tensor]]) -> None:
    mutations = scan.mutations_of([write for write, _ in written])
    scan.at_end_of_backward(partial(reporting.tell, CHECKPOINT_WEIGHTS_CHANGED, written[0][1], mutations))


def _written(leaf: torch.Tensor, since: int) -> tuple[Mutation, ...]:
    """The steps and writes that changed a leaf since then."""
    found: dict[Any, Mutation] = {}
    mine = log.current()
    for step in mine.steps:
        if step.moment > since and step.frames:
            for reference, before, after in step.versions():
                if before != after and reference() is leaf:
                    found[step.frames[-1]] = Mutation(step.operation, sites.at_instruction(step.frames[-1]).site)
    storage = storage_of(leaf)
    direct = [write for write in mine.writes if write.moment > since and write.storage == storage and write.frames]
    return (*found.values(), *scan.mutations_of(direct))


def _runs_in(frame: FrameType | None, function: Any) -> bool:
    """Is this function running, further out than the frame?"""
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame is not None


def _overwrites(write: log.Write) -> bool:
    """Does it replace the old values? Then doing it twice leaves the same."""
    return write.operation == "__setitem__" or has(write.operation, "replaces")


class Detector(detector.Detector):
    """Compares the weights of blocks with the writes since they ran, and with their own writes when they run again."""

    def __init__(self) -> None:
        self.waiting: list[_Ran] = []
        """The blocks that may run again."""
        self._saved: weakref.WeakKeyDictionary[Any, list[torch.Tensor | None]] = weakref.WeakKeyDictionary()
        """For each block: samples of what it saved at first."""
        self._own: list[tuple[log.Write, Tensor]] = []
        """What the block that runs again has written, as it did at first."""
        self._of_compared: tuple[Callable[[], Any], list[tuple[log.Write, Tensor]]] = (lambda: None, [])
        """The block that is being compared, and the same of it."""
        self._first_step = log.state.backwards

    def patches(self) -> Iterator[Patch]:
        """The patches of torch."""
        frames = getattr(checkpoints, "_CheckpointFrame", None)
        if frames is not None:
            why = "The weights of a checkpointed block may change before the block runs again."
            yield injected(frames.__init__, "block", "self", self._note_block, why)
            forward = checkpoints.CheckpointFunction.forward
            yield injected(forward, "reentrant_block", "ctx", self._note_block, why)
            why = "What a block saves when it runs again is compared with what it saved at first."
            yield injected(checkpoints._default_meta_extractor, "block_saves", "x", self._note_saved, why)

    def _is_sampled(self) -> bool:
        """Are blocks looked at in this step? In the first ones, then in the 4th, 8th, 16th and so on."""
        nth: int = log.state.backwards - self._first_step
        return nth <= _ALWAYS or nth & (nth - 1) == 0

    def _note_block(self, keeper: Any) -> None:
        if not tensor_writes.is_traced():
            function = sys._getframe(1).f_locals.get("recompute_fn")
            scan.guarded(lambda: self.waiting.append(_ran(keeper, function, self._is_sampled())))
            if len(self.waiting) > _MOST:
                self.waiting[:] = [entry for entry in self.waiting if entry.keeper() is not None][-_MOST // 2 :]

    def on_plain_write(self, write: log.Write, tensor: torch.Tensor) -> None:
        """Does a block that runs again change once more what it computes with: `self.temperature.mul_(0.9)`?"""
        if self.waiting and len(write.frames) == 1 and not _overwrites(write):
            frame = frame_of(write)
            again = frame is not None and _runs_in(frame, torch.autograd.graph._engine_run_backward)
            if frame is not None and again and hidden_writes.worth_a_look(write.frames[0]):
                scan.guarded(partial(self._look_at_own_write, write, tensor, frame))

    def _look_at_own_write(self, write: log.Write, tensor: torch.Tensor, frame: FrameType) -> None:
        """A block that runs again is about to write this tensor. Did it write it the first time, and is it used?"""
        writes = log.current().writes
        earlier = [item for item in writes if item.storage == write.storage and item.frames == write.frames]
        standing, path = sites.statement_of(frame), scan.target_of(write)
        if len(earlier) < 2 or standing is None or path is None:
            return
        written = write, names.described(tensor, path)
        if not _runs_in(frame, checkpoints.CheckpointFunction.backward):
            self._own.append(written)
        elif step_of(write.operation) and used_later(*standing, path):
            _tell_of_own_writes([written])

    def _note_saved(self, saved: Any) -> None:
        """A block has saved a tensor, or what it saves on its second run is compared with its first run."""
        if tensor_writes.is_traced():
            return
        caller = sys._getframe(2)
        if caller.f_code.co_name == "pack_hook" and self._is_sampled():
            scan.guarded(lambda: self._saved.setdefault(caller.f_locals["frame"], []).append(_sample(saved)))
        elif caller.f_code.co_name == "check_recomputed_tensors_match" and (self._own or self._of_compared[1]):
            scan.guarded(lambda: self._compare(caller.f_locals["self"], caller.f_locals["idx"], saved))

    def _compare(self, block: Any, number: int, saved: Any) -> None:
        if self._of_compared[0]() is not block:
            self._of_compared, self._own = (weakref.ref(block), self._own), []
        first, written = self._saved.get(block, [])[number : number + 1], self._of_compared[1]
        now = _sample(saved)
        if first and written and first[0] is not None and now is not None and not same_values(first[0], now):
            _tell_of_own_writes(written)
            self._of_compared = (self._of_compared[0], [])

    def wants_to_look(self) -> bool:
        """Has an optimizer stepped, or a buffer been written, since a block ran that will run again?"""
        self.waiting[:] = [entry for entry in self.waiting if entry.keeper() is not None]
        steps = log.current().steps
        last = steps[-1].moment if steps else -1
        return any(entry.moment < last or entry.written() for entry in self.waiting)

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """Has something changed that a block of the graph uses?"""
        for region in (*self._in_graph(nodes), *_running(nodes)):
            _report(region)

    def _in_graph(self, nodes: Iterable[Any]) -> list[_Region]:
        """Blocks whose nodes are in the graph, and have saved tensors that the block recomputes."""
        found: dict[int, tuple[Any, list[Any]]] = {}
        for node in nodes:
            block = _block_of(node)
            if block is not None:
                found.setdefault(id(block), (block, []))[1].append(node)
        regions = []
        for block, its in found.values():
            numbers = [graph.number_of(node) or 0 for node in its]
            # A node that saves nothing (the transpose of a weight) has no link to its block, only its number.
            ran = next((entry for entry in self.waiting if entry.keeper() is block), None)
            first = min(numbers) if ran is None else ran.moment
            regions.append(_Region(its[0], max(numbers), _leaves(its, first), [*graph.arguments_of(block)], ran))
        return regions
