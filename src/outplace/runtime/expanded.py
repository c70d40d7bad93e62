"""Writes into expanded memory that PyTorch lets pass (with a warning) and whose backward it then refuses.

`rows[mask] = v` and `rows.masked_fill_(...)` are such writes where `rows` is `x.expand(...)`: several of its elements
lie in one place, and the gradient of a place cannot be told for each of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from types import FrameType
from typing import Any

from outplace.knowledge.errors import Match
from outplace.knowledge.kinds import BY_NAME
from outplace.model import Diagnosis, Mutation, Tensor
from outplace.runtime import graph, hidden, record, sites
from outplace.runtime.record import Write
from outplace.runtime.remedies import fixes_for


def diagnose(error: BaseException, match: Match, frame: FrameType) -> list[Diagnosis]:
    """The diagnosis of a backward that failed so; `frame` is torch's own, with the roots in its arguments."""
    nodes = graph.walk(graph.roots_of(frame.f_locals.get("t_outputs", ())))
    writes = _refused(nodes, str(error))
    raised = record.frames_to_own_code(frame)
    located = [(write.operation, sites.at_instruction(write.frames[-1], write.operation)) for write in writes]
    targets = [sites.target_node(where, operation) for operation, where in located]
    name = next((ast.unparse(target) for target in targets if sites.plainness(target) is not None and target), None)
    region = writes[0].region if writes else None
    kind = BY_NAME[match.entry.kind]
    return [
        Diagnosis(
            kind=kind.name,
            code=kind.code,
            error=str(error),
            tensor=Tensor(name, tuple(region.size) if region else None),
            why=match.cause,
            raised_at=sites.at_instruction(raised[-1]).site if raised else None,
            mutations=tuple(
                Mutation(operation, where.site, (write.before or 0) + 1)
                for write, (operation, where) in zip(writes, located, strict=True)
            ),
            fixes=fixes_for(kind.name, located, False, error=str(error)),
            notes=() if writes else ("The line that wrote into the expanded tensor is not known.",),
        )
    ]


def _refused(nodes: Iterable[Any], message: str) -> list[Write]:
    """The writes through views whose nodes, run by themselves, fail in the same way; oldest first."""
    found: dict[int, Write] = {}
    for node in hidden.failing_alone(nodes, message):
        write = hidden.write_behind(node, graph.number_of(node) or 0)
        if write is not None and write.frames:
            found[id(write)] = write
    return sorted(found.values(), key=lambda write: write.moment)
