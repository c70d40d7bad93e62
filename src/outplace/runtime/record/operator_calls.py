"""The calls of `torch.library` operators that run now. A write inside an operator belongs to its call."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from types import FrameType

from outplace.runtime.record.log import Instruction
from outplace.runtime.record.user_files import own_files


@dataclass(eq=False)
class OperatorCall:
    """One call of an operator that writes arguments."""

    operation: str
    moment: int
    """The number of the graph node that was made next when the call began."""
    frames: tuple[Instruction, ...]
    storages: frozenset[int]
    """What the operator says that it writes."""
    torchs_frame: FrameType | None
    """The frame of torch that runs the operator; None when the call has ended."""
    thread: int

    def frames_of(self, inner: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
        """The frames of a write that runs now inside the operator, out to the line that calls the operator."""
        frames = list(inner)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame is not self.torchs_frame:
            place = (frame.f_code, frame.f_lasti)
            if own_files[frame.f_code.co_filename] and place not in frames:
                frames.append(place)
            frame = frame.f_back
        return (*frames, *self.frames)


running: list[OperatorCall] = []
"""The calls that run now, of all threads."""


def outermost(storage: int) -> OperatorCall | None:
    """The outermost running call of this thread that writes this storage."""
    thread = threading.get_ident()
    return next((call for call in running if call.thread == thread and storage in call.storages), None)


def lines_inside(frames: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
    """The frames out to the user's innermost line, which may lie inside the operator."""
    for number, (code, _) in enumerate(frames):
        if own_files[code.co_filename]:
            return frames[: number + 1]
    return frames
