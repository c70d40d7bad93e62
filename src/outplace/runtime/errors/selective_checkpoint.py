"""Selective checkpointing keeps some results of its block for reuse. Backward finds that they were written since."""

from __future__ import annotations

from types import FrameType, TracebackType
from typing import Any

import torch

from outplace.knowledge.errors import Match
from outplace.model import Diagnosis, SavedTensor, Tensor
from outplace.runtime.errors import build, immediate_errors
from outplace.runtime.locate import names, sites, writers
from outplace.runtime.record.storages import storage_of


def diagnose(error: BaseException, match: Match, frame: FrameType) -> list[Diagnosis]:
    """The diagnosis of a backward that found such a result. `frame` is torch's.

    The block is running again, up to the operation whose result was kept. The traceback leads to it.
    """
    kept, version = _kept(error.__traceback__)
    own = immediate_errors.innermost_own(error.__traceback__)
    writes = [] if kept is None else writers.writes_between(storage_of(kept), version, kept._version)
    tensor = Tensor(None) if kept is None else names.described(kept, None)
    saved_by = SavedTensor("checkpoint", "result", version, sites.at_instruction(own[1]).site if own else None)
    return [build.diagnosis(error, match, frame, writes, tensor, "The line that wrote it is not known.", saved_by)]


def _kept(traceback: TracebackType | None) -> tuple[torch.Tensor | None, int]:
    """The kept result and the version it had. Both are in the frame that found the change."""
    wrapper: Any = None
    while traceback is not None:
        wrapper = traceback.tb_frame.f_locals.get("self")
        traceback = traceback.tb_next
    kept = getattr(wrapper, "val", None)
    return (kept, wrapper.version) if isinstance(kept, torch.Tensor) else (None, 0)
