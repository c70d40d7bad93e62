"""Waits for the gradient of a node's result that was written without autograd recording it.

The result is copied before the write, and a hook waits for its gradient. If an operation used the result after the
write, and a changed element gets a gradient, that gradient belongs to other values.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch.utils.hooks import unserializable_hook

from outplace.knowledge.kind import SilentRule
from outplace.runtime.locate import graph, names
from outplace.runtime.record import hidden_writes, log
from outplace.runtime.record.log import Write
from outplace.runtime.record.snapshots import bits, copyable, unobserved
from outplace.runtime.silent import detector, reporting, scan

_BACKWARDS, _MOST_WATCHED = 4, 200
"""How many backwards a write waits for, and how many writes may wait at once."""


class Watched:
    """The writes to a node's result, and whether an operation used the result afterwards."""

    __slots__ = ("expires", "meant", "used", "version", "writes")

    def __init__(self, write: Write, meant: bool = False, version: int = 0) -> None:
        self.writes, self.meant, self.version = [write], meant, version
        """`meant`: the write is not meant to be differentiated. `version`: of the result, before the first write."""
        self.used = -1
        """The number of the last node that used it."""
        self.expires = log.state.backwards + _BACKWARDS

    def used_writes(self) -> list[Write]:
        """The writes that happened before a node used the result."""
        return [write for write in self.writes if write.moment <= self.used]


class ResultWritten(detector.Detector):
    """A detector of writes to results of nodes."""

    rule: SilentRule
    by_data = False
    """Does the write name the tensor as `name.data`?"""

    def __init__(self) -> None:
        self.waiting: dict[int, Watched] = {}
        """By the number of the node."""

    def let_be(self, write: Write, source: torch.Tensor) -> None:
        """Accepts a write that is not meant to be differentiated, and all other writes to the same result.

        Such a write rounds (`x.data.mul_(n).round_().div_(n)`) or replaces the whole (`p.data.zero_().scatter_(-1,
        best, 1)`).
        """
        number = graph.number_of(source.grad_fn) if source.grad_fn is not None else None
        if number in self.waiting:
            self.waiting[number].meant = True
        elif number is not None and len(self.waiting) < _MOST_WATCHED:
            self.waiting[number] = Watched(write, meant=True)

    def wait(self, write: Write, source: torch.Tensor) -> None:
        """The source is about to be written. Waits for its gradient."""
        if not (copyable(source) and source.requires_grad and not source.is_leaf) or source.is_complex():
            return
        number = graph.number_of(source.grad_fn)
        if number is None or len(self.waiting) >= _MOST_WATCHED or not hidden_writes.reserve_copy(source):
            return
        known = self.waiting.get(number)
        if known is not None:
            if not known.meant:
                known.writes.append(write)
            return
        with unobserved():
            before, now = source.detach().clone(), source.detach()
        self.waiting[number] = watched = Watched(write, version=now._version)

        @unserializable_hook  # type: ignore[untyped-decorator]  # so that nobody is warned who saves the tensor
        def compare(grad: Any) -> None:
            scan.guarded(partial(self._compare, watched, before, now, grad))

        source.register_hook(compare)

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """Finds the results that an operation used after they were written."""
        for node in nodes:
            for below, _ in node.next_functions:
                watched = self.waiting.get(graph.number_of(below)) if below is not None else None  # type: ignore[arg-type]
                if watched is not None and not watched.meant:
                    watched.used = max(watched.used, graph.number_of(node) or 0)
        for number in [number for number, one in self.waiting.items() if one.expires <= log.state.backwards]:
            del self.waiting[number]

    def _compare(self, watched: Watched, before: torch.Tensor, now: torch.Tensor, grad: Any) -> None:
        if not watched.used_writes() or type(grad) is not torch.Tensor or grad.shape != now.shape:
            return
        with unobserved():
            if grad.layout is not torch.strided or not self.is_alone(watched, now):
                return
            changed = (bits(before) != bits(now)) & (before != now)  # -0.0 is no other value than 0.0
            count, total = int((changed & (grad.detach() != 0)).sum()), int(changed.sum())
            compared = total > 0 and not grad.any()
        if count or compared:
            scan.at_end_of_backward(partial(self._tell, watched.used_writes(), now, count, total))

    def is_alone(self, watched: Watched, now: torch.Tensor) -> bool:
        """Have only these writes changed the result? Each write that autograd sees adds one to the version."""
        seen = sum(write.before is not None for write in watched.writes)
        return self.by_data or now._version == watched.version + seen

    def _tell(self, written: list[Write], now: torch.Tensor, count: int, total: int) -> None:
        name = scan.target_of(written[0], by_data=self.by_data)
        tensor, mutations, notes = names.described(now, name), scan.mutations_of(written), (_counted(count, total),)
        if written[-1].operation == hidden_writes.ARRAY:
            scan.report_written_array(tensor, mutations, notes)
        else:
            reporting.tell(self.rule, tensor, mutations, notes=notes)


def _counted(count: int, total: int) -> str:
    if not count:
        return "Its gradient was zero in this backward: the result was compared with its own memory."
    if total == 1:
        return "The element that it changed had a gradient in this backward."
    return f"Of {total} elements that it changed, {count} had a gradient in this backward."
