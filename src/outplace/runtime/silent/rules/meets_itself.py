"""One operation takes the same memory for two values: `p - old`, `p.copy_(old)`, `p.data = old`.

Where two names of one memory meet, the difference is always zero, and the copy changes nothing. Somebody kept a
reference for a copy. It is a bug if the memory was written between two such meetings, or since the reference was taken.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import torch

from outplace.knowledge.silent_rules.two_names import MEETS_ITSELF, PARAMETERS_BY_REFERENCE
from outplace.model import Mutation
from outplace.runtime.locate import names, sites
from outplace.runtime.record import hidden_writes, log, untracked_aliases
from outplace.runtime.record.log import Instruction, Write
from outplace.runtime.record.snapshots import PLAIN, same_piece
from outplace.runtime.record.storages import storage_of
from outplace.runtime.record.untracked_aliases import Weak
from outplace.runtime.silent import detector, reporting, scan

_next_number = torch._C._autograd._get_sequence_nr
_MOST_MEETINGS = 256


class Detector(detector.Detector):
    """Looks at the operations that take two values of the same kind."""

    def __init__(self) -> None:
        self._targets: deque[tuple[int, Callable[[], Any]]] = deque(maxlen=16)
        """The targets of the copies that are about to run. The calls may be nested."""
        self._met: dict[tuple[Instruction, int], tuple[Weak, int, int]] = {}
        """By the line and the address: what met itself there, when, and how many hidden writes there had been."""
        self._told: set[Instruction] = set()
        self._changed: dict[int, tuple[Weak, Write]] = {}
        """By the identity: a kept `.data` of a parameter that was written through another alias, and that write."""

    def on_untracked_write(self, write: Write, alias: torch.Tensor) -> None:
        """`p.data.mul_(2)` is about to run: whoever has kept `p.data` has no copy of the old values."""
        if write.frames and hidden_writes.worth_a_look(write.frames[-1]):
            scan.guarded(partial(self._note_changed, write, alias))

    def _note_changed(self, write: Write, alias: torch.Tensor) -> None:
        mine = {id(alias), id(alias._base)}
        for key, kept in untracked_aliases.over(alias):
            if key not in mine and len(self._changed) < _MOST_MEETINGS:
                self._changed.setdefault(key, (Weak(kept, partial(self._forget, key)), write))
        for key in mine:  # it is a handle: what it shows was written through it
            self._changed.pop(key, None)

    def _forget(self, key: int, _: Any) -> None:
        self._changed.pop(key, None)

    def on_copy_target(self, value: Any, frame: FrameType) -> None:
        """The `x` of `x.copy_(source)`."""
        self._targets.append((id(frame), Weak(value) if type(value) in PLAIN else _nobody))

    def on_copy_source(self, source: Any, frame: FrameType) -> None:
        """Is the source of the copy the same memory as its target?"""
        where, target = 0, None
        while self._targets and where != id(frame):  # a call whose argument raised has left its target behind
            where, reference = self._targets.pop()
            target = reference()
        if where == id(frame) and target is not None and type(source) in PLAIN and same_piece(source, target):
            scan.guarded(partial(self._copied_back, source, target, frame))
            reporting.raise_if_strict()

    def on_data_assigned(self, tensor: Any, value: Any, frame: FrameType, sampled: bool) -> None:
        """`p.data = value`, where the value is a result of `.data` from before the last backward, or made of one."""
        if type(tensor) not in PLAIN:
            return
        if untracked_aliases.is_older(value, log.state.backwards) or self._is_changed(
            value, (frame.f_code, frame.f_lasti)
        ):
            if same_piece(value, tensor):
                scan.guarded(partial(self._copied_back, value, tensor, frame))
                reporting.raise_if_strict()
        elif sampled:
            scan.guarded(partial(_look_at_operands, tensor, frame))
            reporting.raise_if_strict()

    def on_compared(self, one: torch.Tensor, other: torch.Tensor, frame: FrameType) -> None:
        """`one - other`, a distance or a loss of both: they have the same address."""
        if same_piece(one, other) and one.grad_fn is None and other.grad_fn is None:
            if not _copies_back(frame):  # then it is told of what is copied
                scan.guarded(partial(self._meet, one, other, frame))
            reporting.raise_if_strict()

    def _is_changed(self, kept: Any, line: Instruction) -> bool:
        """Was it written by another line than the one that puts it back?"""
        known = self._changed.get(id(kept))
        return known is not None and known[0]() is kept and not _is_same_line(known[1].frames[-1], line)

    def _copied_back(self, source: torch.Tensor, target: torch.Tensor, frame: FrameType) -> None:
        line = frame.f_code, frame.f_lasti
        if self._is_changed(source, line):
            written = self._changed[id(source)][1]
            if line not in self._told:
                self._told.add(line)
                found = names.described(target, scan.target_of(written))
                reporting.tell(MEETS_ITSELF, found, scan.mutations_of([written]), {"other": _read_at(line)})
        elif not _tell_of_parameter(source, target, frame):
            self._meet(source, target, frame)

    def _meet(self, one: torch.Tensor, other: torch.Tensor, frame: FrameType) -> None:
        """Have the two been one before on this line, and was their memory written in between?"""
        line = (frame.f_code, frame.f_lasti)
        if line in self._told:
            return
        key = (line, one.data_ptr())
        known = self._met.get(key)
        if known is not None and (known[0]() is one or known[0]() is other):
            written = _written_since(one, known[1], known[2], line)
        elif any(untracked_aliases.is_older(item, log.state.backwards) for item in (one, other)):
            written = scan.steps_on({storage_of(one)}, min(map(untracked_aliases.made_at, (one, other))))
        else:
            written = ()
        if written:
            self._told.add(line)
            if not reporting.knows(written):
                reporting.tell(MEETS_ITSELF, names.described(one, _source_at(line)), written)
        elif known is None and len(self._met) < _MOST_MEETINGS:
            kept = one if untracked_aliases.is_untracked(one) or type(other) is torch.nn.Parameter else other
            self._met[key] = Weak(kept), _next_number(), hidden_writes.count()


def _copies_back(frame: FrameType) -> bool:
    """Does the running function also assign or copy into parameters: `p.data = ...`, `p.data.copy_(s)`?"""
    standing = sites.statement_of(frame)
    for node in ast.walk(standing[0].scope(standing[1])) if standing is not None else ():
        if isinstance(node, ast.Attribute) and (
            node.attr == "copy_" or (node.attr == "data" and isinstance(node.ctx, ast.Store))
        ):
            return True
    return False


def _written_since(tensor: torch.Tensor, moment: int, hidden: int, line: Instruction) -> tuple[Mutation, ...]:
    """Who has written this memory since then? Not the line itself."""
    storage, site = storage_of(tensor), sites.at_instruction(line).site
    writes = [write for write in log.current().writes if write.storage == storage and write.moment >= moment]
    writes += hidden_writes.since(hidden, tensor)
    written = scan.mutations_of([write for write in writes if write.frames])
    here = (site.file, site.line)
    others = (item for item in written if item.site is None or (item.site.file, item.site.line) != here)
    return (*others, *scan.steps_on({storage}, moment))


def _source_at(line: Instruction) -> str | None:
    """The statement, in one line of source: `p - self.means[n]`."""
    node = sites.at_instruction(line).node
    return ast.unparse(node) if isinstance(node, ast.BinOp | ast.Call) and len(ast.unparse(node)) < 60 else None


def _look_at_operands(tensor: torch.Tensor, frame: FrameType) -> None:
    """`p.data = w + 0.5 * (p.data - w)`, where w is what was kept of p: both are the same."""
    statement = sites.at_instruction((frame.f_code, frame.f_lasti)).statement
    read = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)} if statement is not None else ()
    for name in read if isinstance(statement, ast.Assign) else ():
        value = frame.f_locals.get(name)
        if untracked_aliases.is_older(value, log.state.backwards) and same_piece(value, tensor):
            _tell_of_parameter(value, tensor, frame)


def _nobody() -> None:
    return None


def _tell_of_parameter(source: torch.Tensor, tensor: torch.Tensor, frame: FrameType) -> bool:
    """Reports that a parameter gets back what it is, if an optimizer steps it."""
    place, since = (frame.f_code, frame.f_lasti), untracked_aliases.made_at(source)
    if not scan.steps_on({storage_of(tensor)}, -1):
        return False
    mutations = scan.steps_on({storage_of(tensor)}, since)
    if not mutations:
        mutations = _written_since(tensor, since, hidden_writes.count(), place) if since >= 0 else ()
    mutations = mutations or scan.steps_on({storage_of(tensor)}, -1)
    name, line = _read_at(place), sites.at_instruction(place).site.line
    reporting.tell(PARAMETERS_BY_REFERENCE, names.described(tensor, name), mutations, {"line": line})
    return True


def _read_at(place: Instruction) -> str | None:
    """What the statement copies or assigns: `old` of `p.copy_(old)` and of `p.data = old`."""
    located = sites.at_instruction(place, "copy_")
    assigned = located.statement.value if isinstance(located.statement, ast.Assign) else None
    read = located.node.args[0] if isinstance(located.node, ast.Call) and located.node.args else assigned
    return None if read is None else ast.unparse(read)


def _is_same_line(one: Instruction, other: Instruction) -> bool:
    return one[0] is other[0] and sites.at_instruction(one).site.line == sites.at_instruction(other).site.line
