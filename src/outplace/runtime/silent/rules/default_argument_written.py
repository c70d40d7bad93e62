"""The default of an argument is a tensor, and the function writes it: `def forward(self, x, state=torch.zeros(4))`.

Python makes the default once. All calls without this argument get that very tensor, with what the calls before left.
"""

from __future__ import annotations

import gc
from functools import partial
from types import CodeType, FunctionType

import torch

from outplace.knowledge.derivatives import adds_up, step_of
from outplace.knowledge.silent_rules.two_names import DEFAULT_ARGUMENT_WRITTEN
from outplace.knowledge.traits import has
from outplace.runtime.locate import names
from outplace.runtime.record import hidden_writes, log
from outplace.runtime.record.log import Write
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.operands import is_augmented

_LOOKED_BACK = 8


def _begins_anew(write: Write, code: CodeType) -> bool:
    """Does the function fill the whole tensor before it adds to it: `zero_()`?"""
    others = [item for item in log.current().writes_to(write.storage)[-_LOOKED_BACK:] if item is not write]
    inside = (item for item in others if item.frames and item.frames[-1][0] is code)
    return any(has(item.operation, "replaces") for item in inside)


class Detector(detector.Detector):
    """Looks at the writes of functions to their arguments."""

    def __init__(self) -> None:
        self._looks = hidden_writes.Seldom()
        self._without: set[CodeType] = set()
        """The code of functions that have no defaults."""

    def on_plain_write(self, write: Write, tensor: torch.Tensor) -> None:
        """A tensor that requires no grad is about to be written."""
        item = write.operation == "__setitem__"
        if len(write.frames) != 1 or not (item or step_of(write.operation) or adds_up(write.operation)):
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
        if (write.operation == "__setitem__" and not is_augmented(write)) or _begins_anew(write, code):
            return  # a table of results that were computed before, or a buffer
        functions = [item for item in gc.get_referrers(code) if type(item) is FunctionType]
        defaults = [value for item in functions for value in (item.__defaults__ or ())]
        defaults += [value for item in functions for value in (item.__kwdefaults__ or {}).values()]
        if any(value is tensor for value in defaults):
            found = names.described(tensor, scan.target_of(write))
            reporting.tell(DEFAULT_ARGUMENT_WRITTEN, found, scan.mutations_of([write]))
        elif functions and not defaults:
            self._without.add(code)
