"""Functions that overwrite an argument without `ctx.mark_dirty`.

`work = logits.float()` copies nothing if the logits are already float32. Then `work -= work.max()` in a Function's
forward changes the caller's logits. Later operations on them use the changed values, and nothing is raised. It is
reported if a later operation saved the overwritten memory for the same backward.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from outplace.knowledge.silent_rules.functions import MISSING_MARK_DIRTY
from outplace.knowledge.traits import only_reshapes
from outplace.runtime.locate import graph, names
from outplace.runtime.record import log
from outplace.runtime.record.log import Write
from outplace.runtime.record.storages import storage_of
from outplace.runtime.silent import detector, reporting, scan

_FUNCTION = torch.autograd.function.BackwardCFunction


class _Written:
    """Its length is the number of writes that this thread has recorded."""

    def __len__(self) -> int:
        return len(log.current().writes)


def _is_in_forward(write: Write) -> bool:
    return any(code.co_name == "forward" and code.co_varnames[:1] == ("ctx",) for code, _ in write.frames)


_VIEWS = {
    f"{name}Backward0"
    for name in ("AsStrided", "Expand", "Permute", "ReshapeAlias", "Select", "Slice", "Squeeze", "T", "Transpose",
                 "UnsafeView", "Unsqueeze", "View")
}  # fmt: skip


def _made_of(node: Any) -> set[Any]:
    """The nodes whose results it was given, or views of them. A view that was written has a new node."""
    found = set()
    for parent, _ in node.next_functions:
        while parent is not None and parent.name() in _VIEWS:
            parent = parent.next_functions[0][0]
        found.add(parent)
    return found - {None}


def _written_by(function: Any) -> list[Write]:
    """The writes of its forward. No node is made there, so they all have the number after the Function's own."""
    number = graph.number_of(function)
    writes = [] if number is None else _latest(number + 1)
    return [item for item in writes if _is_in_forward(item) and not only_reshapes(item.operation)]


def _latest(moment: int) -> Iterator[Write]:
    for write in reversed(log.current().writes):
        if write.moment < moment:
            return
        if write.moment == moment:
            yield write


def _declares(function: Any) -> bool:
    return bool(getattr(function, "dirty_tensors", None))


def _tell(function: Any, kept: torch.Tensor, written: list[Write]) -> None:
    name = type(function).__name__.removesuffix("Backward")
    found = names.described(kept, scan.target_of(written[-1]))
    reporting.tell(MISSING_MARK_DIRTY, found, scan.mutations_of(written[::-1]), {"function": name})


class Detector(detector.Detector):
    """Looks for nodes that used memory which the forward of a Function had overwritten."""

    def __init__(self) -> None:
        self.waiting = _Written()
        self._looked_until = -1
        self._last: Write | None = None
        """The last write that was looked at. Many backwards of one graph, as in `gradcheck`, make no new nodes."""

    def wants_to_look(self) -> bool:
        """Has the forward of a Function written anything since the last check?"""
        since, self._looked_until = self._looked_until, torch._C._autograd._get_sequence_nr()
        if since > self._looked_until:  # another thread's numbers
            since = -1
        writes, last = log.current().writes, self._last
        self._last = writes[-1] if writes else None
        for write in reversed(writes):
            if write.moment < since or write is last:
                return False
            if _is_in_forward(write):
                return True
        return False

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """Did a node use memory that a Function had overwritten?"""
        known = list(nodes)
        functions = [node for node in known if isinstance(node, _FUNCTION)]
        for function in functions:
            written = _written_by(function)
            storages = {write.storage for write in written}
            made_of = _made_of(function) if storages else set()
            number = graph.number_of(function) or 0
            for node in known if made_of and not _declares(function) else ():
                later = (graph.number_of(node) or 0) > number and made_of & _made_of(node)
                for _, kept in graph.held(node) if later else ():
                    # A storage that is gone leaves its address to a new one, whose version begins at 0.
                    own = [item for item in written if item.storage == storage_of(kept)]
                    if own and kept._version > (own[-1].before or 0):
                        _tell(function, kept, own)
                        return
