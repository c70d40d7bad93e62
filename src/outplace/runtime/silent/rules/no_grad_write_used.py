"""Node results that are rescaled under `no_grad`: the values change, but backward does not know.

`with torch.no_grad(): z.div_(z.norm())` makes z small, and its gradient stays as large as before. It is a bug if an
operation used z after the write and a changed element gets a gradient. Writes that round or copy are not meant to be
differentiated, and adding does not change the derivative. The forward of a Function is none of this: it runs without
grad, and has a backward of its own.
"""

from __future__ import annotations

from functools import partial
from types import FrameType

import torch

from outplace.knowledge.derivatives import overwrites, passed_by, rescales
from outplace.knowledge.silent_rules.lost import NO_GRAD_WRITE_USED
from outplace.runtime.record import hidden_writes
from outplace.runtime.record.log import Write
from outplace.runtime.silent import scan
from outplace.runtime.silent.operands import frame_of
from outplace.runtime.silent.result_written import ResultWritten


def _in_function(frame: FrameType | None) -> bool:
    """Is the forward of an `autograd.Function` running? Its caller may have no frame: torch 2.15 calls it from C++."""
    while frame is not None:
        if frame.f_code.co_name == "forward" and frame.f_code in _forwards():
            return True
        frame = frame.f_back
    return False


def _forwards() -> set[object]:
    waiting, found = [torch.autograd.Function], set[object]()
    while waiting:
        kinds = waiting.pop().__subclasses__()
        waiting += kinds
        found.update(getattr(kind.forward, "__code__", None) for kind in kinds)
    return found


class Detector(ResultWritten):
    """Receives the writes to results of nodes while no grad is recorded."""

    rule = NO_GRAD_WRITE_USED

    def on_no_grad_write(self, write: Write, source: torch.Tensor) -> None:
        """A result is about to be written, and autograd will not record it."""
        if not write.frames or type(source) is not torch.Tensor:
            return
        if passed_by(write.operation):
            scan.guarded(partial(self.let_be, write, source))
        elif rescales(write.operation) or overwrites(write.operation):
            frame = frame_of(write) if hidden_writes.worth_a_look(write.frames[-1]) else None
            if frame is not None and not _in_function(frame):
                scan.guarded(partial(self.wait, write, source))
