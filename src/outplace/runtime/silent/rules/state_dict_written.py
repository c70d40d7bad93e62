"""The state of one model is summed up in place and loaded into another. This changes the first model as well.

`total = models[0].state_dict()`, `total[name] += value`, `server.load_state_dict(total)`: a `state_dict()` holds the
parameters themselves, so the first client becomes the sum of all clients. It is reported when that client is trained
again, unless it has also loaded the result before its own state was read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import torch

from outplace.knowledge.derivatives import averages
from outplace.knowledge.silent_rules.two_names import STATE_DICT_WRITTEN
from outplace.model import Tensor
from outplace.runtime.locate import sites
from outplace.runtime.record import log
from outplace.runtime.record.log import Instruction, Write
from outplace.runtime.record.storages import storage_of
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.state_dicts import Loaded

_MOST = 8


class _Lent(NamedTuple):
    """The memory of a model whose state another model loaded, and the writes to it before."""

    storages: frozenset[int]
    written: list[Write]
    read: bool = False
    """Was the state of that model read since?"""


def _memory_of(module: Any) -> set[int | None]:
    return {storage_of(parameter) for parameter in module.parameters()}


def _is_to_an_entry(write: Write) -> bool:
    """Is it a write to an entry of a state: `total[name] += value`, `total[name].add_(value)`?"""
    written = sites.target_node(sites.at_instruction(write.frames[-1], write.operation), write.operation)
    return isinstance(written, ast.Subscript) and isinstance(written.value, ast.Name | ast.Attribute)


class Detector(detector.Detector):
    """Records states that were averaged in place and loaded into another model."""

    def __init__(self) -> None:
        self.waiting: list[_Lent] = []
        self._told: set[Instruction] = set()

    def on_own_state_loaded(self, loaded: Loaded) -> None:
        """A state is about to be loaded. Does it hold the parameters of another model, and were they written?"""
        held, since = loaded.held(), loaded.since
        if held & loaded.own():
            return
        written = [
            write
            for write in log.current().writes
            if write.storage in held and write.moment >= since and write.frames and write.frames[-1] not in self._told
        ]
        written = [write for write in written if _is_to_an_entry(write)]
        if averages(write.operation for write in written):  # adding or scaling alone may initialise or update a model
            self.waiting.append(_Lent(frozenset(write.storage for write in written), written))
            del self.waiting[:-_MOST]

    def on_state_dict(self, module: Any) -> None:
        """The state of a model is read."""
        if self.waiting:
            scan.guarded(partial(self._note_taken, module))

    def _note_taken(self, module: Any) -> None:
        self.waiting[:] = [
            item._replace(read=True) if item.storages & _memory_of(module) else item for item in self.waiting
        ]

    def on_load_state_dict(self, module: Any) -> None:
        """A model loads a state, which replaces its own values."""
        if self.waiting:
            scan.guarded(partial(self._forget, module))

    def _forget(self, module: Any) -> None:
        self.waiting[:] = [item for item in self.waiting if item.read or not item.storages & _memory_of(module)]

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """Does this backward train one of those models?"""
        following = (after for node in nodes for after, _ in node.next_functions)
        leaves = (getattr(node, "variable", None) for node in following)
        trained = {storage_of(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)}
        for item in [item for item in self.waiting if item.storages & trained]:
            self.waiting.remove(item)
            self._tell(item)

    def _tell(self, lent: _Lent) -> None:
        self._told.update(write.frames[-1] for write in lent.written)
        found = Tensor(scan.target_of(lent.written[-1]))
        reporting.tell(STATE_DICT_WRITTEN, found, scan.mutations_of(lent.written))
