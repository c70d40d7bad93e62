"""The default of an argument is a tensor, and the function writes it: `def forward(self, x, state=torch.zeros(4))`.

Python makes the default once. All calls without this argument get that very tensor, with what the calls before left.
"""

from __future__ import annotations

import gc
import weakref
from functools import partial
from types import CodeType, FrameType, FunctionType

import torch

from outplace.knowledge.derivatives import step_of
from outplace.knowledge.silent_rules.two_names import DEFAULT_ARGUMENT_WRITTEN
from outplace.runtime.locate import names
from outplace.runtime.record import hidden_writes
from outplace.runtime.record.log import Write
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.operands import frame_of


def _is_argument(frame: FrameType, tensor: torch.Tensor) -> bool:
    """Is the tensor still an argument of the running function?"""
    code, values = frame.f_code, frame.f_locals
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return any(values.get(argument) is tensor for argument in arguments)


class Detector(detector.Detector):
    """Looks at the writes of functions to their arguments."""

    def __init__(self) -> None:
        self._looks: dict[CodeType, tuple[int, list[weakref.ref[FunctionType]]]] = {}
        """How often each code was looked at, and the functions that have it."""

    def on_plain_write(self, write: Write, tensor: torch.Tensor) -> None:
        """A tensor that requires no grad is about to be written."""
        if not step_of(write.operation) or len(write.frames) != 1 or not hidden_writes.worth_a_look(write.frames[0]):
            return
        code = write.frames[0][0]
        frame = frame_of(write) if code.co_argcount + code.co_kwonlyargcount else None
        if frame is not None and _is_argument(frame, tensor):
            scan.guarded(partial(self._look, write, tensor, frame))
            reporting.raise_if_strict()

    def _look(self, write: Write, tensor: torch.Tensor, frame: FrameType) -> None:
        functions = self._functions(frame.f_code)
        defaults = [value for item in functions for value in (item.__defaults__ or ())]
        defaults += [value for item in functions for value in (item.__kwdefaults__ or {}).values()]
        if any(value is tensor for value in defaults):
            found = names.described(tensor, scan.target_of(write))
            reporting.tell(DEFAULT_ARGUMENT_WRITTEN, found, scan.mutations_of([write]))

    def _functions(self, code: CodeType) -> list[FunctionType]:
        """The functions with this code. Only a search through all objects finds them: at the 1st, 2nd, 4th look."""
        looks, known = self._looks.get(code, (0, []))
        looks += 1
        if looks & (looks - 1) == 0:
            known = [weakref.ref(item) for item in gc.get_referrers(code) if type(item) is FunctionType]
        self._looks[code] = looks, known
        return [function for reference in known if (function := reference()) is not None]
