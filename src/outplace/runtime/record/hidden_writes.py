"""The writes that autograd cannot see, each with a copy of what it overwrote, and how often each line is looked at."""

from __future__ import annotations

from types import FrameType
from typing import Any, NamedTuple

import torch

from outplace.runtime.record import log
from outplace.runtime.record.log import Instruction, Write, frames_to_own_code
from outplace.runtime.record.snapshots import Contents, copyable, extent, unobserved

_ALWAYS = 3
"""Turns in which a line is looked at, before that becomes rarer and rarer."""
_BACKWARDS = 4
"""A write is held against so many backwards after it: the first may be of another graph."""
_MOST_WRITES = 2_000
_MOST_BYTES = 1 << 26
"""Of what was overwritten so much is copied at most; beyond it the figure is missing, not the finding."""

ARRAY, PRESERVED = "numpy", "_unsafe_preserve_version_counter"
"""The operations of writes that numpy made, and of those in a block that puts the version back at its end."""

_next_number = torch._C._autograd._get_sequence_nr


class Hidden(NamedTuple):
    """A write that autograd cannot see: `extent` are the addresses it reached, `before` is what stood there.

    `expires` is the backward after which it is too old to be held against a graph.
    """

    write: Write
    extent: tuple[int, int]
    before: Contents | None
    expires: int


class _Line:
    """When a line of the user's was last seen to write, and in how many turns."""

    __slots__ = ("code", "sampled", "since", "turns")

    def __init__(self, code: Any) -> None:
        self.code = code  # keeps the code object, so that its id stays its own
        self.since, self.turns, self.sampled = -1, 0, False


hidden: list[Hidden] = []
_lines: dict[tuple[int, int], _Line] = {}
_copied = 0


def worth_a_look(place: Instruction) -> bool:
    """Between the first few backwards, then between the 4th, 8th, 16th ... that the line comes by."""
    key = (id(place[0]), place[1])
    line = _lines.get(key)
    if line is None:
        line = _lines[key] = _Line(place[0])
    if line.since != log.state.backwards:
        line.since = log.state.backwards
        line.turns += 1
        line.sampled = line.turns <= _ALWAYS or line.turns & (line.turns - 1) == 0
    return line.sampled


def note(write: Write, tensor: Any, before: Contents | None = None, copied: bool = True) -> None:
    """Notes a write that autograd cannot see: before it happens, or with what it overwrote, or (not `copied`) later."""
    if isinstance(tensor, torch.Tensor) and write.frames and worth_a_look(write.frames[-1]):
        with unobserved():
            if copyable(tensor):
                if before is None and copied and affords(tensor):
                    before = Contents.of(tensor)
                hidden.append(Hidden(write, extent(tensor), before, log.state.backwards + _BACKWARDS))
        if len(hidden) > _MOST_WRITES:
            del hidden[: _MOST_WRITES // 2]


def note_call(tensors: Any, operation: str, frame: FrameType | None) -> None:
    """Notes that a call is about to write these tensors unseen."""
    frames = frames_to_own_code(frame)
    if frames and worth_a_look(frames[-1]):
        for tensor in tensors:
            note(Write(0, None, _next_number(), operation, frames, None, False), tensor)


def count() -> int:
    """How many hidden writes are noted just now."""
    return len(hidden)


def since(number: int, tensor: torch.Tensor) -> list[Write]:
    """The writes to this tensor's memory that came after the first `number` of them."""
    if not copyable(tensor):
        return []
    start, stop = extent(tensor)
    return [entry.write for entry in hidden[number:] if entry.extent[0] < stop and start < entry.extent[1]]


def affords(tensor: torch.Tensor) -> bool:
    """May the contents of this tensor be kept?"""
    global _copied
    with unobserved():
        if not copyable(tensor):  # such as a parameter of a lazy module, which must not be asked for its size
            return False
        size = tensor.numel() * tensor.element_size()
    if _copied + size > _MOST_BYTES:
        return False
    _copied += size
    return True


def forget_old() -> None:
    """Forgets the writes that are too old to be held against a graph."""
    global _copied
    hidden[:] = [entry for entry in hidden if entry.expires > log.state.backwards]
    if not hidden:
        _copied = 0


def start_afresh() -> None:
    """Forgets all writes, and looks at every line anew."""
    global _copied
    hidden.clear()
    _lines.clear()
    _copied = 0
