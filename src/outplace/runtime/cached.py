"""Selective checkpointing keeps some results of its block to use them again; backward finds those written since."""

from __future__ import annotations

import ast
from types import FrameType, TracebackType
from typing import Any

import torch

from outplace.knowledge.errors import Match
from outplace.knowledge.kinds import BY_NAME
from outplace.model import Diagnosis, Mutation, SavedTensor, Tensor
from outplace.runtime import culprits, names, record, refused, sites
from outplace.runtime.remedies import fixes_for


def diagnose(error: BaseException, match: Match, frame: FrameType) -> list[Diagnosis]:
    """The diagnosis of a backward that met such a result; `frame` is torch's own.

    The block is being run again, up to the very operation whose result was kept: the traceback leads to it.
    """
    kept, version = _kept(error.__traceback__)
    own = refused.innermost_own(error.__traceback__)
    writes = [] if kept is None else culprits.writes_between(names.storage_of(kept), version, kept._version)
    located = [(write.operation, sites.at_instruction(write.frames[-1], write.operation)) for write in writes]
    targets = [sites.target_node(where, operation) for operation, where in located]
    name = next((ast.unparse(target) for target in targets if target and sites.plainness(target) is not None), None)
    raised = record.frames_to_own_code(frame)
    kind = BY_NAME[match.entry.kind]
    return [
        Diagnosis(
            kind=kind.name,
            code=kind.code,
            error=str(error),
            tensor=Tensor(name) if kept is None else Tensor(name, tuple(kept.shape), str(kept.dtype).split(".")[1]),
            why=match.cause,
            raised_at=sites.at_instruction(raised[-1]).site if raised else None,
            saved_by=SavedTensor("checkpoint", "result", version, sites.at_instruction(own[1]).site if own else None),
            mutations=tuple(
                Mutation(operation, where.site, (write.before or 0) + 1, moment=write.moment)
                for write, (operation, where) in zip(writes, located, strict=True)
            ),
            fixes=fixes_for(kind.name, located, False, error=str(error)),
            notes=() if writes else ("The line that wrote it is not known.",),
        )
    ]


def _kept(traceback: TracebackType | None) -> tuple[torch.Tensor | None, int]:
    """The result that was kept, and the version it then had: both are in the frame that found it changed."""
    wrapper: Any = None
    while traceback is not None:
        wrapper = traceback.tb_frame.f_locals.get("self")
        traceback = traceback.tb_next
    kept = getattr(wrapper, "val", None)
    return (kept, wrapper.version) if isinstance(kept, torch.Tensor) else (None, 0)
