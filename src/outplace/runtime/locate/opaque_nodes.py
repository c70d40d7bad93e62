"""Nodes that do not expose what they save: a write through a view (CopySlices), and out-of-place `_foreach_*`.

Each is run alone, with a gradient of zeros. A stale one fails, and its message has the shape and the versions. The
memory is then that of the written view, or of the one live tensor whose later writes explain these versions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import torch
from torch.autograd.graph import GradientEdge

from outplace.knowledge.errors import VersionError, parse_version_error
from outplace.runtime.locate import graph, names
from outplace.runtime.locate.graph import Slot
from outplace.runtime.record import log
from outplace.runtime.record.log import Write
from outplace.runtime.record.storages import storage_of

_SECONDS = 1.0
"""The time limit for running such nodes. A graph may hold thousands of them, and nearly all are right."""


def stale_slots(nodes: Iterable[Any]) -> list[Slot]:
    """The stale saved tensors of the nodes that do not expose theirs."""
    search = _Search()
    found = []
    for node, message in _failures(nodes):
        error = parse_version_error(message)
        if error is not None:
            found.append(search.slot(node, error, message))
    return found


def failing_alone(nodes: Iterable[Any], message: str) -> list[Any]:
    """The nodes that raise this very error when they are run alone."""
    return [node for node, said in _failures(nodes) if said == message]


def _failures(nodes: Iterable[Any]) -> Iterator[tuple[Any, str]]:
    until = time.monotonic() + _SECONDS
    for node in nodes:
        if type(node).__name__ in ("CopySlices", "CppFunction"):
            if time.monotonic() > until:
                return
            message = _fails_alone(node)
            if message is not None:
                yield node, message


class _Enough(Exception):
    """Raised once the node has run, to stop the backward there."""


def _stop(_gradients: Any) -> None:
    raise _Enough


def _fails_alone(node: Any) -> str | None:
    """The error that this node raises when it is run alone, if any."""
    after = [(following, number) for following, number in node.next_functions if following is not None]
    stops = [following.register_prehook(_stop) for following, _ in after]
    try:
        gradients = tuple(
            torch.zeros(meta.shape, dtype=meta.dtype, device=meta.device) for meta in node._input_metadata
        )
        edges = tuple(GradientEdge(node, number) for number in range(len(gradients)))
        inputs = tuple(GradientEdge(following, number) for following, number in after)
        engine: Any = torch.autograd.Variable._execution_engine  # the engine itself: this is not recorded as a backward
        engine.run_backward(edges, gradients, True, False, inputs, allow_unreachable=True, accumulate_grad=False)
    except _Enough:
        return None
    except Exception as error:
        return str(error)
    finally:
        for stop in stops:
            stop.remove()
    return None


class _Search:
    """Finds the memory that a message is about, among the record's writes and the live tensors."""

    @cached_property
    def _written(self) -> dict[int, list[tuple[float, int]]]:
        """For each storage, the moments of its writes in this thread and the versions they found."""
        found: dict[int, list[tuple[float, int]]] = {}
        for thread in log.all_threads():
            mine = thread is log.current()
            for write in thread.writes:
                found.setdefault(write.storage, []).append((write.moment if mine else math.inf, write.before or 0))
            for step in thread.steps:
                for reference, before, after in step.versions():
                    parameter = reference() if before != after else None
                    if parameter is not None and (storage := storage_of(parameter)) is not None:
                        versions = range(before, after)
                        found.setdefault(storage, []).extend((math.inf, version) for version in versions)
        return found

    @cached_property
    def _alive(self) -> list[tuple[torch.Tensor, int]]:
        """The live tensors in these storages."""
        alive = []
        for tensor in names.live_tensors():
            storage = None if tensor.is_inference() else storage_of(tensor)
            if storage is not None and storage in self._written:
                alive.append((tensor, storage))
        return alive

    def slot(self, node: Any, error: VersionError, message: str) -> Slot:
        number = graph.number_of(node) or 0
        made_by = write_behind(node, number)
        if made_by is not None and _wrote_itself(made_by, error):
            return Slot(node, "result", error, message, _view(made_by, error), made_by.storage)
        fitting = {
            storage: tensor
            for tensor, storage in self._alive
            if tuple(tensor.shape) == error.sizes and tensor._version == error.version
            if self._accounts_for(storage, number, error)
        }
        if len(fitting) == 1:
            return Slot(node, "", error, message, next(iter(fitting.values())))
        if made_by is not None and not fitting and self._accounts_for(made_by.storage, number, error):
            return Slot(node, "result", error, message, _view(made_by, error), made_by.storage)
        return Slot(node, "", error, message, None)

    def _accounts_for(self, storage: int, number: int, error: VersionError) -> bool:
        """Do the writes to this storage after the node lead from the version it saved to the present one?"""
        since = {before for moment, before in self._written.get(storage, ()) if moment > number}
        return not since.isdisjoint(range(error.expected, error.version))


def write_behind(node: Any, number: int) -> Write | None:
    """The write through a view that made this node."""
    if type(node).__name__ != "CopySlices":
        return None
    before = (write for write in reversed(log.current().writes) if write.moment <= number)
    return next(before, None)


def _wrote_itself(write: Write, error: VersionError) -> bool:
    """Did the node save the result of its own write, as in `y[0].exp_()`? The message then names that operation."""
    operation = write.operation.removeprefix("__i").strip("_")
    return error.op is not None and error.op.lower() == operation.replace("_", "")


def _view(write: Write, error: VersionError) -> torch.Tensor | None:
    """A tensor without memory, with the geometry of the written view."""
    if write.region is None:
        return None
    try:
        dtype = getattr(torch, error.type.rpartition(".")[2]).dtype
        whole = torch.empty(0, dtype=dtype, device="meta")
        view = whole.as_strided(write.region.size, write.region.stride, write.region.offset)
        view = view[write.region.key]
    except (AttributeError, RuntimeError, IndexError):
        return None
    return view if tuple(view.shape) == error.sizes else None
