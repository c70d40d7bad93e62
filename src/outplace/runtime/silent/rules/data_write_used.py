"""Results of the graph that are changed through `.data`: the values change, and backward goes on as if they had not.

After `h.data.clamp_(-1, 1)` the gradient passes where it should be zero, after `h.data.mul_(0.1)` it is ten times too
large, and nothing that was saved need have changed. So a hook waits for the gradient of such a tensor: if it was
computed with after the write, and any gradient comes back to an element that was changed, that is wrong. Scores that
are masked by -inf get none, and a number that is added has the derivative that backward takes anyway; what rounds or
copies is meant to be passed by.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch.utils.hooks import unserializable_hook

from outplace.knowledge.derivatives import overwrites, passed_by, rescales
from outplace.knowledge.silent_rules.lost import DATA_WRITE_USED
from outplace.runtime.errors import freed_names
from outplace.runtime.locate import graph, names, sites
from outplace.runtime.patches.table import Patch, slot
from outplace.runtime.record import hidden_writes, log, untracked_aliases
from outplace.runtime.record.log import Write
from outplace.runtime.record.snapshots import bits, copyable, unobserved
from outplace.runtime.silent import detector, reporting, scan

_BACKWARDS, _MOST_WATCHED = 4, 200
"""For so many backwards a write is waited for, and so many at once."""


class _Watched:
    """The writes of a node's result: is that computed with afterwards?"""

    __slots__ = ("expires", "meant", "used", "writes")

    def __init__(self, write: Write, meant: bool = False) -> None:
        self.writes, self.used, self.meant = [write], -1, meant
        """`used`: the last node that was computed with it."""
        self.expires = log.state.backwards + _BACKWARDS

    def used_writes(self) -> list[Write]:
        return [write for write in self.writes if write.moment <= self.used]


def _assigns_by_itself(write: Write) -> bool:
    """`x.data[i] *= 2`, `x.data[i] = 0`; what else is assigned may be a value that is meant to be passed by.

    But not a number at places that the program names: `x.data[:, 0] = self.left`.
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


def _compare(watched: _Watched, before: torch.Tensor, now: torch.Tensor, grad: Any) -> None:
    if not watched.used_writes() or type(grad) is not torch.Tensor or grad.shape != now.shape:
        return
    with unobserved():
        if grad.layout is not torch.strided:
            return
        changed = bits(before) != bits(now)
        count, total = int((changed & (grad.detach() != 0)).sum()), int(changed.sum())
    if count:
        scan.tell_when_done(partial(_tell, watched.used_writes(), now, count, total))


def _tell(written: list[Write], now: torch.Tensor, count: int, total: int) -> None:
    name = scan.target_of(written[0], by_data=True)
    notes = (_counted(count, total),)
    reporting.tell(DATA_WRITE_USED, names.described(now, name), scan.mutations_of(written), notes=notes)


def _counted(count: int, total: int) -> str:
    if total == 1:
        return "The element that it changed had a gradient in this backward."
    return f"Of {total} elements that it changed, {count} had a gradient in this backward."


class Detector(detector.Detector):
    """Waits for the gradients of results that were written through `.data`."""

    def __init__(self) -> None:
        self.waiting: dict[int, _Watched] = {}
        """By the number of the node."""

    def patches(self) -> Iterator[Patch]:
        """The slot of the scan that is filled here."""
        why = "Tells whether the result of the graph that a write changed was computed with afterwards."
        yield slot(scan, "goes_on", self._goes_on, why)

    def _goes_on(self, write: Write) -> bool:
        return any(write in one.used_writes() for one in self.waiting.values())

    def on_untracked_write(self, write: Write, alias: torch.Tensor) -> None:
        """A write that autograd cannot see is about to be made through this alias."""
        operation, source = write.operation, untracked_aliases.source_of(alias)
        if source is None or not write.frames:
            return
        replaced = operation in ("fill_", "zero_") and alias.numel() == source.numel()
        if passed_by(operation) or replaced:
            scan.guarded(partial(self._let_be, write, source))
        elif (
            rescales(operation) or overwrites(operation) or operation == "__setitem__"
        ) and hidden_writes.worth_a_look(write.frames[-1]):
            scan.guarded(partial(self._wait, write, source))

    def _let_be(self, write: Write, source: torch.Tensor) -> None:
        """`x.data.mul_(n).round_().div_(n)`, `p.data.zero_().scatter_(-1, best, 1)`: what is rounded, or replaced as a
        whole, is meant to be passed by, with all that belongs to it."""
        number = graph.number_of(source.grad_fn) if source.grad_fn is not None else None
        if number in self.waiting:
            self.waiting[number].meant = True
        elif number is not None and len(self.waiting) < _MOST_WATCHED:
            self.waiting[number] = _Watched(write, meant=True)

    def _wait(self, write: Write, source: torch.Tensor) -> None:
        if not (copyable(source) and source.requires_grad and not source.is_leaf) or source.is_complex():
            return
        number = graph.number_of(source.grad_fn)
        if number is None or len(self.waiting) >= _MOST_WATCHED or not hidden_writes.affords(source):
            return
        known = self.waiting.get(number)
        if known is not None and known.meant:
            return
        if write.operation == "__setitem__" and not _assigns_by_itself(write):
            return
        if known is not None:
            known.writes.append(write)
            return
        with unobserved():
            before, now = source.detach().clone(), source.detach()
        self.waiting[number] = watched = _Watched(write)

        @unserializable_hook  # type: ignore[untyped-decorator]  # so that nobody is warned who saves the tensor
        def wait(grad: Any) -> None:
            scan.guarded(partial(_compare, watched, before, now, grad))

        source.register_hook(wait)

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """Which of the results went on after they were written?"""
        for node in nodes:
            for below, _ in node.next_functions:
                watched = self.waiting.get(graph.number_of(below)) if below is not None else None  # type: ignore[arg-type]
                if watched is not None and not watched.meant:
                    watched.used = max(watched.used, graph.number_of(node) or 0)
        for number in [number for number, one in self.waiting.items() if one.expires <= log.state.backwards]:
            del self.waiting[number]
