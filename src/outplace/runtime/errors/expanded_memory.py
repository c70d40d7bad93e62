"""Writes into expanded memory that PyTorch allows (with a warning), but whose backward it refuses.

`rows[mask] = v` and `rows.masked_fill_(...)` are such writes if `rows` is `x.expand(...)`. Several of its elements
share one address, so a gradient for each of them cannot be computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import FrameType
from typing import Any

from outplace.knowledge.errors import Match
from outplace.model import Diagnosis, Tensor
from outplace.runtime.errors import build
from outplace.runtime.locate import graph, opaque_nodes
from outplace.runtime.record.log import Write


def diagnose(error: BaseException, match: Match, frame: FrameType) -> list[Diagnosis]:
    """The diagnosis of a backward that failed in this way. `frame` is torch's; its arguments hold the roots."""
    nodes = graph.walk(graph.roots_of(frame.f_locals.get("t_outputs", ())))
    writes = _refused(nodes, str(error))
    tensor = Tensor(None, tuple(writes[0].region.size) if writes and writes[0].region else None)
    unknown = "The line that wrote into the expanded tensor is not known."
    return [build.diagnosis(error, match, frame, writes, tensor, unknown)]


def _refused(nodes: Iterable[Any], message: str) -> list[Write]:
    """The writes through views whose nodes fail in the same way when they are run alone, oldest first."""
    found: dict[int, Write] = {}
    for node in opaque_nodes.failing_alone(nodes, message):
        write = opaque_nodes.write_behind(node, graph.number_of(node) or 0)
        if write is not None and write.frames:
            found[id(write)] = write
    return sorted(found.values(), key=lambda write: write.moment)
