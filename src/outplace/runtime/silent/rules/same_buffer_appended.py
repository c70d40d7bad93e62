"""One memory that is stored several times, each time by a new object, and changed in between.

`frames.append(x.numpy())` stores arrays over the memory of `x`. `replay.append(torch.from_numpy(env.state))` stores
tensors over the array of `env`. At the end all entries show the last values. `batches = list(reader)`, where the reader
yields `torch.from_numpy(self.buffer)`, stores without such a call: then the tensors of one line that are alive count.
"""

from __future__ import annotations

import ast
import gc
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from types import FrameType
from typing import Any, NamedTuple

import torch

from outplace.knowledge.silent_rules.lists import SAME_BUFFER_APPENDED
from outplace.model import Mutation, Tensor
from outplace.runtime.locate import names, sites
from outplace.runtime.record import hidden_writes, log, untracked_aliases
from outplace.runtime.record.log import Instruction, Write
from outplace.runtime.record.snapshots import bits, copyable, same_piece, unobserved
from outplace.runtime.record.storages import storage_of
from outplace.runtime.record.untracked_aliases import Weak
from outplace.runtime.silent import detector, reporting, scan

_next_number = torch._C._autograd._get_sequence_nr
_FROM_NUMPY: Any = torch.from_numpy
_LARGEST, _MOST_ARRAYS, _MOST_ITEMS = 1 << 16, 64, 4096
_CONTAINERS = (list, tuple, dict, deque)
"""A graph keeps tensors alive, too, but not in these."""
_SEVERAL = 3
"""So many tensors of one line over one memory are alive at once. A loop has two of them: the next one and its own."""


class _Found(NamedTuple):
    """A line that stored one memory with different contents: the first object, its contents, and who wrote it."""

    first: Weak
    tensor: Tensor
    since: int
    written: list[Write]
    holds_both: bool = False
    """Was the first object still alive when the third came? A queue for one item has dropped it by then."""
    listed: bool = True
    """Was it in a container then? Python 3.14 does not show a tuple before it is complete, so this is asked again."""


def _over(value: Any) -> Any:
    """A tensor over the memory of an array; for a tensor, the tensor itself."""
    if not untracked_aliases.is_array(value):
        return value.detach()
    try:
        return _FROM_NUMPY(value)
    except (TypeError, ValueError):  # an array with negative strides, or with a dtype that torch lacks
        return None


def _tell(found: _Found, line: Instruction) -> None:
    first = found.first()
    # `history.append([p.data for p in parameters])`: an optimizer writes the memory.
    steps = (
        () if found.written or not isinstance(first, torch.Tensor) else scan.steps_on({storage_of(first)}, found.since)
    )
    if steps:
        reporting.tell(SAME_BUFFER_APPENDED, found.tensor, steps, place=line)
    elif not found.written:
        filled = _filled_near(line)
        if filled:
            reporting.tell(SAME_BUFFER_APPENDED, found.tensor, filled, place=line)
    else:
        tensor = replace(found.tensor, name=scan.target_of(found.written[-1]))
        reporting.tell(SAME_BUFFER_APPENDED, tensor, scan.mutations_of(found.written), place=line)


def _is_listed(tensor: torch.Tensor) -> bool:
    """Does a container hold the tensor, or a view of it?"""
    if any(type(holder) in _CONTAINERS for holder in gc.get_referrers(tensor)):
        return True
    holders = [holder for holder in gc.get_objects() if type(holder) is list and 1 < len(holder) <= _MOST_ITEMS]
    return any(type(item) is torch.Tensor and item._base is tensor for holder in holders for item in holder)


def _is_kept(found: _Found) -> bool:
    """Did the program keep the first object beside the later one?"""
    first = found.first()
    if found.listed:
        return found.holds_both or first is not None
    return first is not None and _is_listed(first)


def _filled_near(line: Instruction) -> tuple[Mutation, ...]:
    """The calls that fill the memory: `stream.readinto(self.buffer)`, above `torch.frombuffer(self.buffer)`."""
    located = sites.at_instruction(line)
    code = sites.code_of(located.filename)
    taken = code.at(located.site) if code is not None else None
    if code is None or not isinstance(taken, ast.Call) or not taken.args:
        return ()
    source, found = ast.dump(taken.args[0]), []
    for statement in ast.walk(code.scope(taken)):
        call = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
        if isinstance(call, ast.Call) and taken not in ast.walk(call) and source in map(ast.dump, call.args):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
            found.append(Mutation(name, sites.site_of(code.path, statement, located.site.function)))
    return tuple(found)


class Detector(detector.Detector):
    """Compares what a line appends with what it appended before."""

    def __init__(self) -> None:
        self._kept: dict[Instruction, tuple[Weak, torch.Tensor, int]] = {}
        """For each storing line: the object it stored, a copy of its contents at that time, and when that was."""
        self._taken: dict[Instruction, list[tuple[Weak, torch.Tensor, int]]] = {}
        """For each line that makes tensors over arrays: the same for its latest tensors."""
        self.waiting: dict[Instruction, _Found] = {}
        """Reported when the next backward starts, with all writers."""
        self._told: set[Instruction] = set()
        self._writes: dict[int, tuple[Weak, int, dict[Instruction, None]]] = {}
        """By the address of an array that tensors share: the array, its bytes, and the lines that wrote it."""

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """A backward shows that the program trains with the stored values."""
        for line in list(self.waiting):
            found = self.waiting.pop(line)
            if _is_kept(found):
                self._told.add(line)
                _tell(found, line)

    def on_memory_appended(self, value: Any, frame: FrameType) -> None:
        """An array, or a tensor over one, is about to be appended."""
        line = (frame.f_code, frame.f_lasti)
        found = self.waiting.get(line)
        if found is None and line not in self._told and hidden_writes.worth_a_look(line):
            scan.guarded(lambda: self._note(value, line))
        elif found is not None and (not found.holds_both or hidden_writes.worth_a_look(line)):
            scan.guarded(lambda: self._see_again(found, line))

    def on_array_taken(self, tensor: torch.Tensor, frame: FrameType) -> None:
        """A line has made a tensor over an array."""
        line = (frame.f_code, frame.f_lasti)
        if line not in self._told and line not in self.waiting and hidden_writes.worth_a_look(line):
            scan.guarded(lambda: self._compare_with_living(tensor, line))

    def _compare_with_living(self, tensor: torch.Tensor, line: Instruction) -> None:
        with unobserved():
            if not copyable(tensor) or tensor.device.type != "cpu" or tensor.numel() > _LARGEST:
                return
            taken = self._taken.setdefault(line, [])
            taken[:] = [item for item in taken[-_MOST_ARRAYS:] if item[0]() is not None]
            same = [item for item in taken if same_piece(item[0](), tensor)]
            changed = len(same) + 1 >= _SEVERAL and not torch.equal(bits(same[0][1]), bits(tensor))
            if changed:
                first, _, since = same[0]
                named, written = names.described(tensor, None), self._writes_of(first(), since)
                self.waiting[line] = _Found(first, named, since, written, holds_both=True, listed=_is_listed(first()))
            taken.append((Weak(tensor), tensor.clone(), _next_number()))

    def on_array_written(self, array: Any, place: Instruction) -> None:
        """An array that may share memory with a tensor is about to be written."""
        owner = untracked_aliases.owner_of(array)
        if untracked_aliases.is_array(owner):
            address = owner.__array_interface__["data"][0]
            if address not in self._writes and len(self._writes) < _MOST_ARRAYS:
                self._writes[address] = Weak(owner, lambda _: self._writes.pop(address, None)), owner.nbytes, {}
            if address in self._writes:
                self._writes[address][2].setdefault(place)

    def _note(self, value: Any, line: Instruction) -> None:
        with unobserved():
            over = _over(value)
            if over is None or not copyable(over) or over.device.type != "cpu" or over.numel() > _LARGEST:
                return
            kept, shown, since = self._kept.get(line, (None, None, 0))
            before = kept() if kept is not None else None
            again = before is not None and before is not value and same_piece(_over(before), over)
            if again and not torch.equal(bits(shown), bits(over)):
                self.waiting[line] = _Found(
                    Weak(before), names.described(over, None), since, self._writes_of(before, since)
                )
            elif not again and (before is None or before is not value):
                self._kept[line] = Weak(value), over.clone(), _next_number()

    def _see_again(self, found: _Found, line: Instruction) -> None:
        """The line stores something again. If the first object is still alive, what has written it by now?"""
        first = found.first()
        if first is None:
            del self.waiting[line]
        else:
            self.waiting[line] = found._replace(holds_both=True, written=self._writes_of(first, found.since))

    def _writes_of(self, kept: Any, since: int) -> list[Write]:
        """The writes to this memory while the object has been alive."""
        owner = untracked_aliases.owner_of(kept) if untracked_aliases.is_array(kept) else None
        storage = storage_of(owner) if isinstance(owner, torch.Tensor) else None
        written = [
            write
            for write in log.current().writes
            if write.storage == storage and write.moment >= since and write.frames
        ]
        address = kept.__array_interface__["data"][0] if untracked_aliases.is_array(kept) else kept.data_ptr()
        for start, (_, size, places) in self._writes.items():
            if start <= address < start + size:
                written += [Write(0, None, since, hidden_writes.ARRAY, (place,), None, False) for place in places]
        return written
