"""The default of an argument is a tensor, and the function writes it: `def forward(self, x, state=torch.zeros(4))`.

Python makes the default once. All calls without this argument get that very tensor, with what the calls before left.
"""

from __future__ import annotations

import gc
from functools import partial
from types import FrameType, FunctionType

import torch

from outplace.knowledge.derivatives import step_of
from outplace.knowledge.silent_rules.two_names import DEFAULT_ARGUMENT_WRITTEN
from outplace.runtime.locate import names
from outplace.runtime.record import hidden_writes
from outplace.runtime.record.log import Write
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.operands import frame_of


def _has_default(frame: FrameType, tensor: torch.Tensor) -> bool:
    """Is the tensor a default of the running function?"""
    functions = [item for item in gc.get_referrers(frame.f_code) if type(item) is FunctionType]
    defaults = [value for item in functions for value in (item.__defaults__ or ())]
    defaults += [value for item in functions for value in (item.__kwdefaults__ or {}).values()]
    return any(value is tensor for value in defaults)


class Detector(detector.Detector):
    """Looks at the writes of functions to their arguments."""

    def on_plain_write(self, write: Write, tensor: torch.Tensor) -> None:
        """A tensor that requires no grad is about to be written."""
        if not step_of(write.operation) or len(write.frames) != 1 or not hidden_writes.worth_a_look(write.frames[0]):
            return
        code = write.frames[0][0]
        frame = frame_of(write) if code.co_argcount + code.co_kwonlyargcount else None
        if frame is not None:
            scan.guarded(partial(self._look, write, tensor, frame))
            reporting.raise_if_strict()

    def _look(self, write: Write, tensor: torch.Tensor, frame: FrameType) -> None:
        if _has_default(frame, tensor):
            found = names.described(tensor, scan.target_of(write))
            reporting.tell(DEFAULT_ARGUMENT_WRITTEN, found, scan.mutations_of([write]))
