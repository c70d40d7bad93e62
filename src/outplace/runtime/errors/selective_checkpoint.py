"""Selective checkpointing keeps some results of its block to use them again; backward finds those written since."""

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
    """The diagnosis of a backward that met such a result; `frame` is torch's own.

    The block is being run again, up to the very operation whose result was kept: the traceback leads to it.
    """
    kept, version = _kept(error.__traceback__)
    own = immediate_errors.innermost_own(error.__traceback__)
    writes = [] if kept is None else writers.writes_between(storage_of(kept), version, kept._version)
    tensor = Tensor(None) if kept is None else names.described(kept, None)
    saved_by = SavedTensor("checkpoint", "result", version, sites.at_instruction(own[1]).site if own else None)
    return [build.diagnosis(error, match, frame, writes, tensor, "The line that wrote it is not known.", saved_by)]


def _kept(traceback: TracebackType | None) -> tuple[torch.Tensor | None, int]:
    """The result that was kept, and the version it then had: both are in the frame that found it changed."""
    wrapper: Any = None
    while traceback is not None:
        wrapper = traceback.tb_frame.f_locals.get("self")
        traceback = traceback.tb_next
    kept = getattr(wrapper, "val", None)
    return (kept, wrapper.version) if isinstance(kept, torch.Tensor) else (None, 0)
