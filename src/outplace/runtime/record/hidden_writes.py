"""The writes that autograd cannot see, each with a copy of what it overwrote, and how often each line is sampled."""

from __future__ import annotations

from types import FrameType
from typing import Any, NamedTuple

import torch

from outplace.runtime.record import log
from outplace.runtime.record.log import Instruction, Write, frames_to_own_code
from outplace.runtime.record.snapshots import Contents, copyable, extent, unobserved

_ALWAYS = 3
"""A line is sampled in this many backwards at first, then less and less often."""
_BACKWARDS = 4
"""A write is compared with this many backwards after it. The first of them may belong to another graph."""
_MOST_WRITES = 2_000
_MOST_BYTES = 1 << 26
"""At most this many bytes of overwritten memory are copied. Larger writes are still found, without a figure."""

ARRAY, PRESERVED = "numpy", "_unsafe_preserve_version_counter"
"""The names of two operations: a write by numpy, and a write in a block that restores the version at its end."""

_next_number = torch._C._autograd._get_sequence_nr


class Hidden(NamedTuple):
    """A write that autograd cannot see: `extent` is the range of addresses, `before` is a copy of the old contents.

    The write is not compared with a graph after the backward number `expires`.
    """

    write: Write
    extent: tuple[int, int]
    before: Contents | None
    expires: int


class _Line:
    """For one line of the user's code: the last backward before which it wrote, and the number of such backwards."""

    __slots__ = ("code", "sampled", "since", "turns")

    def __init__(self, code: Any) -> None:
        self.code = code  # keeps the code object alive, so that its id is not reused
        self.since, self.turns, self.sampled = -1, 0, False


hidden: list[Hidden] = []
_lines: dict[tuple[int, int], _Line] = {}
_copied = 0


def worth_a_look(place: Instruction) -> bool:
    """Is this line to be sampled now? It is in its first few backwards, then in the 4th, 8th, 16th and so on."""
    key = (id(place[0]), place[1])
    line = _lines.get(key)
    if line is None:
        line = _lines[key] = _Line(place[0])
    if line.since != log.state.backwards:
        line.since = log.state.backwards
        line.turns += 1
        line.sampled = line.turns <= _ALWAYS or line.turns & (line.turns - 1) == 0
    return line.sampled


class Seldom:
    """For a look that costs more than the write itself. A line that runs often between two backwards has few looks."""

    def __init__(self) -> None:
        self._turns: dict[Instruction, tuple[int, int]] = {}

    def is_due(self, place: Instruction) -> bool:
        """Is this line to be looked at now? Between two backwards: at its first times, then at the 8th, 16th ..."""
        if not worth_a_look(place):
            return False
        since, turns = self._turns.get(place, (-1, 0))
        turns = turns + 1 if since == log.state.backwards else 1
        self._turns[place] = log.state.backwards, turns
        return turns <= _FIRST_TURNS or turns & (turns - 1) == 0


_FIRST_TURNS = 4


def note(write: Write, tensor: Any, before: Contents | None = None, copied: bool = True) -> None:
    """Records a write that autograd cannot see. Copies what it overwrites, unless `before` has it or not `copied`."""
    if isinstance(tensor, torch.Tensor) and write.frames and worth_a_look(write.frames[-1]):
        with unobserved():
            if copyable(tensor):
                if before is None and copied and reserve_copy(tensor):
                    before = Contents.of(tensor)
                hidden.append(Hidden(write, extent(tensor), before, log.state.backwards + _BACKWARDS))
        if len(hidden) > _MOST_WRITES:
            del hidden[: _MOST_WRITES // 2]


def note_call(tensors: Any, operation: str, frame: FrameType | None) -> None:
    """Records that a call is about to write these tensors without changing their versions."""
    frames = frames_to_own_code(frame)
    if frames and worth_a_look(frames[-1]):
        for tensor in tensors:
            note(Write(0, None, _next_number(), operation, frames, None, False), tensor)


def count() -> int:
    """How many hidden writes are recorded now."""
    return len(hidden)


def since(number: int, tensor: torch.Tensor) -> list[Write]:
    """The hidden writes to this tensor's memory after the first `number` of all hidden writes."""
    if not copyable(tensor):
        return []
    start, stop = extent(tensor)
    return [entry.write for entry in hidden[number:] if entry.extent[0] < stop and start < entry.extent[1]]


def reserve_copy(tensor: torch.Tensor) -> bool:
    """Is there room to copy the contents of this tensor?"""
    global _copied
    with unobserved():
        if not copyable(tensor):  # for example a parameter of a lazy module, whose size must not be read
            return False
        size = tensor.numel() * tensor.element_size()
    if _copied + size > _MOST_BYTES:
        return False
    _copied += size
    return True


def forget_old() -> None:
    """Drops the writes that are too old to be compared with a graph."""
    global _copied
    hidden[:] = [entry for entry in hidden if entry.expires > log.state.backwards]
    if not hidden:
        _copied = 0


def reset() -> None:
    """Drops all writes and starts to sample every line from the beginning."""
    global _copied
    hidden.clear()
    _lines.clear()
    _copied = 0
