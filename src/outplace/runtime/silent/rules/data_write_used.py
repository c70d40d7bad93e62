"""Node results that are changed through `.data`: the values change, but backward does not know.

After `h.data.clamp_(-1, 1)` the gradient passes where it should be zero. After `h.data.mul_(0.1)` it is ten times too
large. No saved tensor needs to have changed. So a hook waits for the gradient of such a tensor. It is a bug if an
operation used the tensor after the write and a changed element gets a gradient. Scores that are masked by -inf get
none. Adding a number does not change the derivative. Writes that round or copy are not meant to be differentiated.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import partial
from types import FrameType

import torch

from outplace.knowledge.derivatives import overwrites, passed_by, rescales
from outplace.knowledge.silent_rules.lost import DATA_WRITE_USED
from outplace.knowledge.traits import has
from outplace.runtime.errors import freed_names
from outplace.runtime.locate import sites
from outplace.runtime.patches.table import Patch, slot
from outplace.runtime.record import hidden_writes, untracked_aliases
from outplace.runtime.record.log import Write
from outplace.runtime.silent import scan
from outplace.runtime.silent.result_written import ResultWritten


class Detector(ResultWritten):
    """Receives the writes through `.data`."""

    rule = DATA_WRITE_USED
    by_data = True

    def patches(self) -> Iterator[Patch]:
        """Fills a callback slot of the scan."""
        why = "Tells whether the result of the graph that a write changed was computed with afterwards."
        yield slot(scan, "goes_on", self._goes_on, why)

    def _goes_on(self, write: Write) -> bool:
        return any(write in item.used_writes() for item in self.waiting.values())

    def on_untracked_write(self, write: Write, alias: torch.Tensor) -> None:
        """A write that autograd cannot see is about to run through this alias."""
        operation, source = write.operation, untracked_aliases.source_of(alias)
        if source is None or not write.frames:
            return
        replaced = has(operation, "replaces") and alias.numel() == source.numel()
        differs = rescales(operation) or overwrites(operation) or operation == "__setitem__"
        if passed_by(operation) or replaced:
            scan.guarded(partial(self.let_be, write, source))
        elif differs and hidden_writes.worth_a_look(write.frames[-1]):
            scan.guarded(partial(self._wait, write, source))

    def _wait(self, write: Write, source: torch.Tensor) -> None:
        if write.operation != "__setitem__" or assigns_by_itself(write):
            self.wait(write, source)


def assigns_by_itself(write: Write) -> bool:
    """Does the write itself compute the new values: `x.data[i] *= 2`, `x.data[i] = 0`?

    Other assigned values may not be meant to be differentiated. The same holds for a number at positions that the
    program names: `x.data[:, 0] = self.left`.
    """
    statement = sites.at_instruction(write.frames[-1], write.operation).statement
    if isinstance(statement, ast.AugAssign):
        return not isinstance(statement.op, ast.Add | ast.Sub)
    value = getattr(statement, "value", None)
    value = value.operand if isinstance(value, ast.UnaryOp) else value
    if write.region is None or not isinstance(value, ast.Name | ast.Attribute):
        return isinstance(value, ast.Constant)
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not write.frames[-1][0]:
        frame = frame.f_back
    return frame is not None and type(freed_names.value_of(value, frame)) in (int, float)
