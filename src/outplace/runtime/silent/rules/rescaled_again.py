"""Data that stays from step to step, and that each step normalises in place once more.

`inputs = torch.from_numpy(x[i:j])`, `inputs.sub_(mean).div_(std)` changes the array of the caller, and the next epoch
normalises what is normalised already. `adj += eye`, `adj /= deg` in a forward does the same to a graph.

A round is the time between two backwards. It is a bug if the same lines do the same to the same memory in a later
round, and the memory still has what the earlier round left there. Its contents tell this, or its version: nothing but
the writes of these lines has moved it. A running average is fine: it decays, or adds something new. A write that
changes nothing the second time is fine, too. So is what follows a network: the weights of samples in boosting.

A batch that is a part of the data (`for ids in data.split(8)`, `ids[mask] = 0`) and has a name of its own is no state:
whatever takes from it or cuts holes into it in a later round as well, is a bug.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch.utils.data._utils import fetch as fetching

from outplace.knowledge.by_hand import CALLED_AS
from outplace.knowledge.derivatives import normalises, step_of
from outplace.knowledge.names import spellings
from outplace.knowledge.silent_rules.lists import ARRAY_PART_WRITTEN
from outplace.knowledge.silent_rules.two_names import RESCALED_AGAIN
from outplace.repair.syntax.code import root_of
from outplace.repair.syntax.flow import used_later
from outplace.runtime.locate import graph, names, sites
from outplace.runtime.record import log
from outplace.runtime.record.log import Instruction, Write
from outplace.runtime.record.snapshots import PLAIN, copyable, extent, same_values, sample, unobserved
from outplace.runtime.record.storages import storage_of
from outplace.runtime.record.untracked_aliases import Weak, is_older
from outplace.runtime.silent import cut_data, detector, reporting, scan
from outplace.runtime.silent.operands import frame_of, is_augmented, of_network, only_of_itself, only_of_numbers

_MOST_MEMORIES, _MOST_OF_A_LINE, _MOST_PENDING = 4_000, 256, 128
_LARGEST = 1 << 22
"""The largest number of elements of a tensor that is looked at."""
_SEVERAL = 2
"""So many earlier calls of a round must have rescaled the same memory, if no backward ends the round."""
_ENOUGH = 4
"""A line is left alone after so many memories that it has written rightly again."""

Key = tuple[int, torch.Size]
"""The address and the shape of a written tensor."""


@dataclass(slots=True)
class _Done:
    """One write of a round, with a sample of the contents before it."""

    write: Write
    before: torch.Tensor
    follows: bool
    """Has nothing else written the memory since the last write that was seen?"""
    part: bool
    """Is it a part of other memory?"""
    own: bool = False
    """Does the statement compute with nothing but the memory itself?"""
    fetched: bool = False
    """Does a DataLoader run it?"""
    of_numbers: bool = False
    """Does the statement compute with numbers alone?"""
    of_argument: bool = False
    """Is that so, and is it an argument of the function?"""
    of_caller: bool = False
    """Is that so, and has an earlier call of this round written it as well?"""
    uneven: bool = False
    """Does it multiply, not everywhere by the same factor?"""
    by_chance: bool = False
    """Does it cut holes at random?"""
    of_network: bool = False
    """Does the statement compute with what a network gives?"""
    masked: bool = False
    """Does it overwrite what a mask was made of?"""


class _Memory:
    """What the last rounds did to a memory."""

    __slots__ = ("after", "alias", "chain", "earlier", "first", "round")

    def __init__(self) -> None:
        self.round = -1
        self.alias: torch.Tensor | None = None
        """Until the round ends."""
        self.chain: list[_Done] = []
        self.earlier: tuple[list[_Done], torch.Tensor] | None = None
        """The writes of the round before, and what they left."""
        self.after: torch.Tensor | None = None
        self.first: Weak | None = None
        """The reference in `Detector._versions` at the last write. A new tensor at this address gets another one."""


def _is_uniform(values: torch.Tensor) -> bool:
    return same_values(values, values[:1].expand_as(values))


class Detector(detector.Detector):
    """Compares what a round does to a memory with what earlier rounds did."""

    def __init__(self) -> None:
        self._memories: dict[Key, _Memory] = {}
        self._of_line: dict[Instruction, int] = {}
        """How many memories each line has written."""
        self._right: dict[Instruction, int] = {}
        """How often each line has written a memory rightly again."""
        self.waiting: dict[Key, _Memory] = {}
        """The memories that were written since the last backward."""
        self._versions: dict[int, tuple[Weak, int]] = {}
        """For each storage: the first tensor over it, and the version after the last write that was seen here."""

    def on_plain_write(self, write: Write, tensor: torch.Tensor) -> None:
        """A tensor that requires no grad is about to be written."""
        if not write.frames or type(tensor) not in PLAIN:
            return
        follows = write.operation == "__setitem__" and self._follows(write, tensor)
        if follows and is_augmented(write):
            return  # the second half of `x[:, 0] += 1`
        if not (step_of(write.operation) or _cuts(write) or cut_data.fills(write)):
            if normalises(write.operation):  # `clamp_`: alone it changes nothing the second time
                self._follows(write, tensor)
            return
        line = write.frames[-1]
        if self._right.get(line, 0) >= _ENOUGH:
            return
        if write.operation != "__setitem__":
            follows = self._follows(write, tensor)
        try:
            key = tensor.data_ptr(), tensor.shape
        except RuntimeError:  # inside a transform of `torch.func`
            return
        memory = self._memories.get(key)
        if memory is None:
            seen = self._of_line.get(line, 0)
            if seen >= _MOST_OF_A_LINE or len(self.waiting) >= _MOST_PENDING or len(self._memories) >= _MOST_MEMORIES:
                return
            with unobserved():
                if not copyable(tensor) or not 1 < tensor.numel() <= _LARGEST or _is_data(tensor):
                    return
            self._of_line[line] = seen + 1
            memory = self._memories[key] = _Memory()
        scan.guarded(partial(self._note, key, memory, write, tensor, follows))

    def _follows(self, write: Write, tensor: torch.Tensor) -> bool:
        """Has nothing moved the version of this storage since the last write that was seen here?"""
        if write.before is None:
            return False
        base = tensor._base if tensor._is_view() else tensor
        first, version = self._versions.get(write.storage, (None, 0))
        follows = first is not None and first() is base and version == write.before
        if follows and write.operation == "__setitem__" and not _keeps_old_values(write):
            return False  # a bank that gets new rows is a state
        if first is None or not follows:
            if write.operation == "__setitem__" and not cut_data.fills(write):
                return False
            first = Weak(base, lambda _: self._versions.pop(write.storage, None))
        self._versions[write.storage] = first, write.before + 1
        return follows

    def _note(self, key: Key, memory: _Memory, write: Write, tensor: torch.Tensor, follows: bool) -> None:
        with unobserved():
            before = sample(tensor)
            if memory.round != log.state.backwards:
                # A write that moves no version is seen by the contents.
                follows_it = follows and memory.first is self._versions[write.storage][0]
                stands = memory.after is not None and (follows_it or memory.after.equal(before))
                memory.earlier = (memory.chain, memory.after) if stands and memory.after is not None else None
                memory.round, memory.chain, memory.after = log.state.backwards, [], None
                memory.alias = tensor.detach()
                self.waiting[key] = memory
            memory.first = self._versions.get(write.storage, (None,))[0]
            frame = frame_of(write) if memory.earlier is not None else None
            done = _Done(write, before, follows, _is_part(tensor))
            if frame is not None:
                done.own, done.fetched = only_of_itself(write, tensor, frame), _in_fetch(frame)
                done.of_numbers = done.own and only_of_numbers(write, frame)
                done.of_argument = done.of_numbers and _is_argument(write, frame)
                done.of_network = of_network(write, frame)
                done.by_chance = cut_data.cuts_by_chance(write, frame)
                done.masked = cut_data.loses_its_mask(write, frame)
            times = sum(earlier.write.frames == write.frames for earlier in memory.chain)
            if times:
                frame = frame or frame_of(write)
                done.of_caller = frame is not None and _is_argument(write, frame) and only_of_numbers(write, frame)
            if done.of_caller and times >= _SEVERAL:  # there may be no backward any more: a search for a temperature
                memory.after = before
                in_one = _in_one_round(memory)
                if in_one:
                    self._tell(in_one, tensor, in_one)
            memory.chain.append(done)

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """The round ends. What did it leave, and is it what another round did already?"""
        for key in list(self.waiting):
            memory = self.waiting.pop(key)
            alias, memory.alias = memory.alias, None
            if alias is None:
                continue
            with unobserved():
                memory.after = sample(alias)
                again = _again(memory, _of_array(alias)) if self._knows_all(memory, alias) else []
                in_one = _in_one_round(memory)
                if in_one or (again and self._matters(again, alias, nodes)):
                    self._tell(in_one or again, alias, memory.earlier[0] if memory.earlier else memory.chain)
                elif memory.earlier is not None:
                    for done in memory.chain:
                        line = done.write.frames[-1]
                        self._right[line] = self._right.get(line, 0) + 1

    def _knows_all(self, memory: _Memory, alias: torch.Tensor) -> bool:
        """Has only what was seen here written the memory in this round? `mul_(b).addcmul_(g, g)` is an average."""
        version = self._versions.get(memory.chain[-1].write.storage, (None, alias._version))[1]
        return version == alias._version and all(done.follows for done in memory.chain[1:])

    def _matters(self, again: list[_Done], alias: torch.Tensor, nodes: Iterable[Any]) -> bool:
        """Does the training use the memory? Of an array that is sure; a tensor must be saved by the graph."""
        if _is_uniform(again[0].before.double()):  # a time or a counter
            return False
        if _of_array(alias) or all(done.by_chance or done.masked or _divides_by_number(done) for done in again):
            return True
        return not again[0].fetched and _is_trained_with(again, alias, list(nodes))

    def _tell(self, again: list[_Done], alias: torch.Tensor, earlier: list[_Done]) -> None:
        written = [done.write for done in again]
        since = min(done.write.moment for done in earlier)
        lines = {write.frames[-1] for write in written}
        for write in log.current().writes_to(written[0].storage):  # what else changes it in such a round
            if write.moment >= since and write.frames and write.frames[-1] not in lines and _builds_on(write):
                lines.add(write.frames[-1])
                written.append(write)
        found = names.described(alias, scan.target_of(written[0]))
        rule = ARRAY_PART_WRITTEN if _of_array(alias) else RESCALED_AGAIN
        reporting.tell(rule, found, scan.mutations_of(written))


def _again(memory: _Memory, array: bool) -> list[_Done]:
    """The writes that did the same as in the round before, if all did. `array`: it is memory of an array."""
    if memory.earlier is None or memory.after is None or any(done.of_network for done in memory.chain):
        return []
    if same_values(memory.chain[0].before, memory.after):
        return memory.chain if _has_lost_its_mask(memory) else []
    if all(done.by_chance or _takes_from_batch(done) for done in memory.chain):
        return memory.chain
    return _repeated(memory.chain, memory.after, *memory.earlier, array)


def _repeated(
    chain: list[_Done], now: torch.Tensor, first: list[_Done], left: torch.Tensor, array: bool
) -> list[_Done]:
    """The writes of a chain that did the same as those of an earlier one. The chains left `now` and `left`."""
    if [done.write.frames[-1] for done in chain] != [done.write.frames[-1] for done in first]:
        return []
    afters = [*(done.before for done in chain[1:]), now]
    left_by = [*(done.before for done in first[1:]), left]
    found = []
    adds = any(step_of(done.write.operation) == "add" for done in chain)
    moves = adds and all(done.of_numbers for done in chain)
    for done, after, then, left_then in zip(chain, afters, first, left_by, strict=True):
        around = (after.double(), then.before.double(), left_then.double())
        if not (_is_same_again(done, *around) if array else _explains(done, *around, moves)):
            return []
        if not (same_values(done.before, after) and same_values(then.before, left_then)):
            known = done.before != 0
            scales = step_of(done.write.operation) == "scale"
            done.uneven = scales and not _is_uniform(after[known] / done.before[known].double())
            found.append(done)
    return found


def _is_trained_with(again: list[_Done], alias: torch.Tensor, nodes: list[Any]) -> bool:
    """Is it no weight, and divided by what it holds itself (no state is kept like this), or saved by the graph?"""
    below = (item for node in nodes for item, _ in node.next_functions)
    leaves = {storage_of(item.variable) for item in below if hasattr(item, "variable")}
    if storage_of(alias) in leaves:  # this is how a weight is trained
        return False
    if all(done.own for done in again) and any(done.uneven for done in again):
        return True
    start, stop = extent(alias)
    spans = (extent(item) for node in nodes for _, item in graph.held(node) if copyable(item))
    return any(first < stop and start < last for first, last in spans)


def _keeps_old_values(write: Write) -> bool:
    """Does an assignment to a part compute with what was there, or cut something out of it?"""
    return is_augmented(write) or _builds_on(write) or _cuts(write) or cut_data.fills(write)


def _builds_on(write: Write) -> bool:
    """Are the new values made of the old ones: `x /= n`, `x[:, [0, 2]] = 1 - x[:, [2, 0]]`?"""
    if write.operation != "__setitem__":
        return bool(step_of(write.operation))
    located = sites.at_instruction(write.frames[-1], write.operation)
    target = sites.target_node(located, write.operation)
    node = located.node
    if not isinstance(node, ast.Assign) or target is None:
        return False
    return any(ast.dump(part) == ast.dump(target) for part in ast.walk(node.value) if isinstance(part, type(target)))


def _divides_by_number(done: _Done) -> bool:
    """Does a function divide by a number what it was given, or a part that it has named: `anchors = self.anchors[i]`?

    A product with a number may be a decay.
    """
    if not done.of_numbers or spellings(done.write.operation)[0].rstrip("_") not in CALLED_AS["div"]:
        return False
    located = sites.at_instruction(done.write.frames[-1], done.write.operation)
    named = isinstance(sites.target_node(located, done.write.operation), ast.Name)
    return done.of_argument or (done.part and named)


def _has_lost_its_mask(memory: _Memory) -> bool:
    """Did the round before overwrite what the mask was made of, and is there nothing left to be masked?"""
    if memory.earlier is None or not all(done.masked for done in memory.chain):
        return False
    first, left = memory.earlier
    same = [done.write.frames[-1] for done in memory.chain] == [done.write.frames[-1] for done in first]
    return same and not same_values(first[0].before, left)


def _without_others(chain: list[_Done]) -> bool:
    """Has nothing else written the memory in between: `buffer.copy_(image)`? Each write adds one to the version."""
    versions = [done.write.before for done in chain]
    known = [version for version in versions if version is not None]
    return known == list(range(known[0], known[0] + len(versions))) if known else True


def _in_one_round(memory: _Memory) -> list[_Done]:
    """The writes of a function to its argument, if several calls in this round rescale the same memory.

    `for out, stride in zip(outputs, strides): loss(out, scaled(boxes, stride))` divides the boxes again and again. A
    factor or a sum that is the same everywhere is fine: it decays, or counts.
    """
    if memory.after is None or not any(done.of_caller for done in memory.chain) or not _without_others(memory.chain):
        return []
    lines = {done.write.frames for done in memory.chain if done.of_caller}
    if _is_uniform(memory.chain[0].before.double()) or any(done.write.frames not in lines for done in memory.chain):
        return []
    found = []
    afters = [*(done.before for done in memory.chain[1:]), memory.after]
    for done, after in zip(memory.chain, afters, strict=True):
        before, now, known = done.before.double(), after.double(), done.before != 0
        change = now[known] / before[known] if step_of(done.write.operation) == "scale" else now - before
        if same_values(before, now):
            continue
        if _is_uniform(change) and spellings(done.write.operation)[0].rstrip("_") not in CALLED_AS["div"]:
            return []
        found.append(done)
    return found if len(found) > 1 else []


def _is_argument(write: Write, frame: FrameType) -> bool:
    """Does the statement write an argument of its function, outside of any loop, and does the function read it then?"""
    located, standing = sites.at_instruction(write.frames[-1], write.operation), sites.statement_of(frame)
    target = sites.target_node(located, write.operation)
    root = root_of(target) if target is not None else None
    if standing is None or not isinstance(root, ast.Name) or standing[0].loops(standing[1]):
        return False
    arguments = frame.f_code.co_varnames[: frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount]
    return root.id in arguments and used_later(*standing, root.id)


def _cuts(write: Write) -> bool:
    """Does it put something where a mask or a list of indices says?"""
    if write.operation in ("__ior__", "__iand__"):
        return True
    return (write.operation == "__setitem__" and write.region is None) or write.operation == "masked_fill_"


def _is_part(tensor: torch.Tensor) -> bool:
    """Is it a number of elements out of many?"""
    own = tensor.numel() * tensor.element_size()
    return bool(own < tensor.untyped_storage().nbytes())


def _takes_from_batch(done: _Done) -> bool:
    """Does the write take something from a part of the data that has a name of its own, or cut holes into it?"""
    located = sites.at_instruction(done.write.frames[-1], done.write.operation)
    target = sites.target_node(located, done.write.operation)
    if not done.part or not isinstance(target, ast.Name):
        return False
    if isinstance(located.node, ast.AugAssign) and _cuts(done.write):
        return True  # `mask |= padded`
    if done.before.dtype is torch.bool:
        return False
    if _cuts(done.write):
        node = located.node
        value = node.value if isinstance(node, ast.Assign) else node.args[-1] if isinstance(node, ast.Call) else None
        return isinstance(value, ast.Constant)
    return step_of(done.write.operation) == "shift"


def _is_data(tensor: torch.Tensor) -> bool:
    """Is it a result of `.data`, or a view of one? That is how weights are written."""
    now = log.state.backwards + 1
    return is_older(tensor, now) or (tensor._base is not None and is_older(tensor._base, now))


def _is_same_again(done: _Done, after: torch.Tensor, then: torch.Tensor, left: torch.Tensor) -> bool:
    """Is what happens to an array what happened to it the first time? (What is kept in an array is data.)"""
    before = done.before.double()
    if step_of(done.write.operation) in ("add", "shift"):
        return done.own or same_values(after - before, left - then)
    known = (before != 0) & (then != 0)
    return done.own or same_values(after[known] / before[known], left[known] / then[known])


def _explains(done: _Done, after: torch.Tensor, then: torch.Tensor, left: torch.Tensor, moves: bool) -> bool:
    """Is this write one that should not happen twice? `then` and `left` are the contents around it the first time.

    `moves`: it is one of several that multiply and add numbers, as `labels.mul_(0.9).add_(0.05)`. That is no decay.
    """
    before, step = done.before.double(), step_of(done.write.operation)
    if step in ("", "thin"):
        return step == "thin"
    if step == "add":
        return done.own
    if step == "shift":
        return done.own or same_values(after - before, left - then)
    known = (before != 0) & (then != 0)
    ratio, earlier = after[known] / before[known], left[known] / then[known]
    if not len(ratio):
        return False
    if _is_uniform(ratio) and spellings(done.write.operation)[0] in ("mul_", "multiply_"):
        return moves
    return done.own or same_values(ratio, earlier)


def _of_array(tensor: torch.Tensor) -> bool:
    """Does the tensor lie in memory of another owner, such as an array?"""
    storage = tensor.untyped_storage()
    return tensor.device.type == "cpu" and not storage.resizable() and not storage.is_shared()


def _in_fetch(frame: FrameType | None) -> bool:
    """Does a DataLoader call this? Then `dataset_sample_written` looks at it."""
    while frame is not None and frame.f_code.co_filename != fetching.__file__:
        frame = frame.f_back
    return frame is not None
