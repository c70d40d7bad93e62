"""`fully_shard` frees the whole weights after a forward, and backward gathers them again.

PyTorch does not compare the versions of such weights. So an optimizer step in between raises nothing, and backward uses
the new weights. The nodes of the graph show which weights they have saved; the updates of the shards are recorded.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import torch

from outplace.knowledge.silent_rules.functions import SHARDED_WEIGHTS_CHANGED
from outplace.model import Diagnosis, Mutation, SavedTensor, Site
from outplace.runtime.locate import graph, names, writers
from outplace.runtime.locate.node_expressions import made_at
from outplace.runtime.patches.code_injection import injected
from outplace.runtime.patches.table import Patch
from outplace.runtime.record import log
from outplace.runtime.record.storages import storage_of
from outplace.runtime.silent import detector, reporting, scan


class Detector(detector.Detector):
    """Compares the weights that nodes have saved with the later updates of their shards."""

    def __init__(self) -> None:
        self.waiting: list[weakref.ref[Any]] = []
        """FSDP's objects that hold a weight: whole while it is in use, else the part of this rank."""

    def patches(self) -> Iterator[Patch]:
        """The patches of torch."""
        if torch.distributed.is_available():
            from torch.distributed.fsdp._fully_shard._fsdp_param import FSDPParam

            why = "Weights that `fully_shard` shards may be updated before backward gathers them again."
            yield injected(FSDPParam.__init__, "sharded", "self", self._note, why)

    def _note(self, parameter: Any) -> None:
        self.waiting[:] = [entry for entry in self.waiting if entry() is not None]
        self.waiting.append(weakref.ref(parameter))

    def wants_to_look(self) -> bool:
        """Is anything recorded that may have updated a weight?"""
        record = log.current()
        return bool(record.steps or record.writes)

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """Has a weight been updated since a node of this graph saved it?"""
        freed = {storage_of(held._unsharded_param): held for held in self._freed()}
        if not freed:
            return
        saved: dict[int | None, tuple[int, Any, str]] = {}
        for node in nodes:
            number = graph.number_of(node)
            if number is not None:
                for saved_as, tensor in graph.held(node):
                    storage = storage_of(tensor)
                    if storage in freed and (storage not in saved or number < saved[storage][0]):
                        saved[storage] = number, node, saved_as
        for storage, (number, node, saved_as) in sorted(saved.items(), key=lambda item: item[1][0]):
            shard = freed[storage].sharded_param
            mutations = _updates(shard, number)
            if mutations:
                _report(shard, mutations, SavedTensor(node.name(), saved_as, None, _site(node), number))
                return

    def _freed(self) -> Iterator[Any]:
        """The weights that backward has to gather again."""
        for entry in self.waiting:
            held = entry()
            if held is not None and hasattr(held, "_unsharded_param") and held.sharded_state.name != "UNSHARDED":
                yield held


def _updates(shard: torch.Tensor, since: int) -> tuple[Mutation, ...]:
    """The steps and writes that have changed the part of this rank since then."""
    storage = storage_of(shard)
    writes = [item for item in log.current().writes if item.moment > since and item.storage == storage and item.frames]
    return scan.steps_on({storage}, since) + scan.mutations_of(writes)


def _site(node: Any) -> Site | None:
    return made_at(writers.place_of(node), node.name())


def _report(shard: torch.Tensor, mutations: tuple[Mutation, ...], saved: SavedTensor) -> None:
    rule = SHARDED_WEIGHTS_CHANGED
    name = names.name_in_frames(shard, names.own_frames(None, sys._getframe(1)))
    tensor, no = names.described(shard, name), reporting.NO_ERROR
    found = Diagnosis(
        rule.family, rule.code, no, tensor, rule.why, cause=rule.name, mutations=mutations, saved_by=saved
    )
    scan.at_end_of_backward(partial(reporting.report, found, rule.remedy))
