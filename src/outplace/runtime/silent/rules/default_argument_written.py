"""The default of an argument is a tensor, and the function writes it: `def forward(self, x, state=torch.zeros(4))`.

Python makes the default once. All calls without this argument get that very tensor, with what the calls before left.
"""

from __future__ import annotations

import gc
from functools import partial
from types import CodeType, FunctionType

import torch

from outplace.knowledge.derivatives import step_of
from outplace.knowledge.silent_rules.two_names import DEFAULT_ARGUMENT_WRITTEN
from outplace.runtime.locate import names
from outplace.runtime.record import hidden_writes
from outplace.runtime.record.log import Write
from outplace.runtime.silent import detector, reporting, scan


class Detector(detector.Detector):
    """Looks at the writes of functions to their arguments."""

    def __init__(self) -> None:
        self._looks = hidden_writes.Seldom()
        self._without: set[CodeType] = set()
        """The code of functions that have no defaults."""

    def on_plain_write(self, write: Write, tensor: torch.Tensor) -> None:
        """A tensor that requires no grad is about to be written."""
        if not step_of(write.operation) or len(write.frames) != 1:
            return
        code = write.frames[0][0]
        if (
            code.co_argcount + code.co_kwonlyargcount
            and code not in self._without
            and self._looks.is_due(write.frames[0])
        ):
            scan.guarded(partial(self._look, write, tensor, code))
            reporting.raise_if_strict()

    def _look(self, write: Write, tensor: torch.Tensor, code: CodeType) -> None:
        functions = [item for item in gc.get_referrers(code) if type(item) is FunctionType]
        defaults = [value for item in functions for value in (item.__defaults__ or ())]
        defaults += [value for item in functions for value in (item.__kwdefaults__ or {}).values()]
        if any(value is tensor for value in defaults):
            found = names.described(tensor, scan.target_of(write))
            reporting.tell(DEFAULT_ARGUMENT_WRITTEN, found, scan.mutations_of([write]))
        elif functions and not defaults:
            self._without.add(code)
