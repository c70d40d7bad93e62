"""Nodes that do not show what they save: a write through a view (CopySlices), and out-of-place `_foreach_*`.

Each is run by itself, with zeros for a gradient: a stale one fails and says the shape and the versions. The memory
behind it is then the written view itself, or the one live tensor whose writes since account for these versions.
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
"""A graph may hold thousands of such nodes, nearly all of them innocent: so long is spent on running them."""


def stale_slots(nodes: Iterable[Any]) -> list[Slot]:
    """The stale saved tensors of those nodes that hide theirs."""
    search = _Search()
    found = []
    for node, message in _failures(nodes):
        error = parse_version_error(message)
        if error is not None:
            found.append(search.slot(node, error, message))
    return found


def failing_alone(nodes: Iterable[Any], message: str) -> list[Any]:
    """Those of these nodes that raise this very error when they are run by themselves."""
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
    """The node has run; what comes after it is not to."""


def _stop(_gradients: Any) -> None:
    raise _Enough


def _fails_alone(node: Any) -> str | None:
    """The error that this node raises when it is run by itself, if it does."""
    after = [(following, number) for following, number in node.next_functions if following is not None]
    stops = [following.register_prehook(_stop) for following, _ in after]
    try:
        gradients = tuple(
            torch.zeros(meta.shape, dtype=meta.dtype, device=meta.device) for meta in node._input_metadata
        )
        edges = tuple(GradientEdge(node, number) for number in range(len(gradients)))
        inputs = tuple(GradientEdge(following, number) for following, number in after)
        engine: Any = torch.autograd.Variable._execution_engine  # itself, so that this is not noted as a backward
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
    """Finds the memory behind a message, among the writes of the record and the tensors that are alive."""

    @cached_property
    def _written(self) -> dict[int, list[tuple[float, int]]]:
        """For each storage the moments at which it was written (in this thread) and the versions it then had."""
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
        """The tensors in these storages that Python still knows."""
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
        """Do the writes to this storage since the node was made lead from the version it kept to the present one?"""
        since = {before for moment, before in self._written.get(storage, ()) if moment > number}
        return not since.isdisjoint(range(error.expected, error.version))


def write_behind(node: Any, number: int) -> Write | None:
    """The write through a view that made this node."""
    if type(node).__name__ != "CopySlices":
        return None
    before = (write for write in reversed(log.current().writes) if write.moment <= number)
    return next(before, None)


def _wrote_itself(write: Write, error: VersionError) -> bool:
    """Is what the node kept the result of its own write, as in `y[0].exp_()`? The message then names that operation."""
    operation = write.operation.removeprefix("__i").strip("_")
    return error.op is not None and error.op.lower() == operation.replace("_", "")


def _view(write: Write, error: VersionError) -> torch.Tensor | None:
    """A tensor without memory that lies where the written view lay."""
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
