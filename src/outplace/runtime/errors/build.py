"""The diagnosis of a backward that PyTorch refused because of known writes."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Sequence
from types import FrameType

from outplace.knowledge.errors import Match
from outplace.knowledge.kinds import BY_NAME
from outplace.model import Diagnosis, Mutation, SavedTensor, Tensor
from outplace.runtime.errors.remedies import fixes_for
from outplace.runtime.locate import sites
from outplace.runtime.record import log
from outplace.runtime.record.log import Write


def diagnosis(
    error: BaseException,
    match: Match,
    frame: FrameType,
    writes: Sequence[Write],
    tensor: Tensor,
    unknown: str,
    saved_by: SavedTensor | None = None,
) -> Diagnosis:
    """The diagnosis. `frame` is torch's. The tensor takes its name from the writes; without any, `unknown` is said."""
    located = [(write.operation, sites.at_instruction(write.frames[-1], write.operation)) for write in writes]
    targets = [sites.target_node(where, operation) for operation, where in located]
    name = next(
        (ast.unparse(target) for target in targets if target and sites.complexity_of_name(target) is not None), None
    )
    raised = log.frames_to_own_code(frame)
    kind = BY_NAME[match.entry.kind]
    return Diagnosis(
        kind=kind.name,
        code=kind.code,
        error=str(error),
        tensor=dataclasses.replace(tensor, name=name),
        why=match.cause,
        raised_at=sites.at_instruction(raised[-1]).site if raised else None,
        saved_by=saved_by,
        mutations=tuple(
            Mutation(operation, where.site, (write.before or 0) + 1, moment=write.moment)
            for write, (operation, where) in zip(writes, located, strict=True)
        ),
        fixes=fixes_for(kind.name, located, False, error=str(error)),
        notes=() if writes else (unknown,),
    )
