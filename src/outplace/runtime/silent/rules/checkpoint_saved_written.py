"""A checkpointed block runs again in backward and saves tensors. PyTorch does not check whether they are written then.

Outside a checkpoint PyTorch compares the version of a saved tensor and raises an error. A non-reentrant block keeps its
tensors by hooks, which switch that check off. So the same bug inside it gives a wrong gradient and no error.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.utils import checkpoint as checkpoints

from outplace.knowledge.silent_rules.functions import CHECKPOINT_SAVED_WRITTEN
from outplace.model import SavedTensor
from outplace.runtime.locate import names, sites, writers
from outplace.runtime.patches.table import Patch, replaced
from outplace.runtime.record import hidden_writes
from outplace.runtime.record.log import Instruction, frames_to_own_code
from outplace.runtime.record.snapshots import copyable, fingerprint, unobserved
from outplace.runtime.record.storages import storage_of
from outplace.runtime.silent import detector, reporting, scan

_next_number = torch._C._autograd._get_sequence_nr


class _Saved(NamedTuple):
    """A tensor as it was when a block saved it."""

    version: int
    contents: torch.Tensor
    moment: int
    place: Instruction


class _Recomputed(weakref.WeakKeyDictionary[Any, Any]):
    """Replaces the dict in which a block keeps what it saves on its second run."""

    def __init__(self) -> None:
        super().__init__()
        self._noted: weakref.WeakKeyDictionary[Any, _Saved] = weakref.WeakKeyDictionary()

    def __setitem__(self, handle: Any, tensor: Any) -> None:
        super().__setitem__(handle, tensor)
        frames = frames_to_own_code(sys._getframe(1))
        if frames and hidden_writes.worth_a_look(frames[-1]):
            scan.guarded(partial(self._note, handle, tensor, frames[-1]))

    def _note(self, handle: Any, tensor: Any, place: Instruction) -> None:
        if copyable(tensor) and not tensor.is_inference() and storage_of(tensor) is not None:
            with unobserved():
                self._noted[handle] = _Saved(tensor._version, fingerprint(tensor), _next_number(), place)

    def __getitem__(self, handle: Any) -> Any:
        tensor = super().__getitem__(handle)
        saved = self._noted.get(handle)
        if saved is not None:
            scan.guarded(partial(_compare, tensor, saved))
        return tensor


def _compare(tensor: torch.Tensor, saved: _Saved) -> None:
    """Compares the contents too: a write to another part of the memory also changes the version, but does no harm."""
    with unobserved():
        if tensor._version == saved.version or torch.equal(fingerprint(tensor), saved.contents):
            return
    storage = storage_of(tensor)
    between = writers.writes_between(storage, saved.version, tensor._version)
    written = [write for write in between if write.moment >= saved.moment]
    if written:
        found = names.described(tensor, scan.target_of(written[-1]))
        site = sites.at_instruction(saved.place).site
        saver = SavedTensor("checkpoint", "recomputed", saved.version, site, saved.moment)
        mutations = tuple(
            replace(mutation, version=(write.before or 0) + 1)
            for write in written
            for mutation in scan.mutations_of([write])
        )
        tell = partial(reporting.tell, CHECKPOINT_SAVED_WRITTEN, found, mutations, saved_by=saver)
        scan.at_end_of_backward(tell)


def _watched(original: Any) -> Any:
    @functools.wraps(original)
    def __init__(self: Any, target_frame_ref: Any, gid: Any) -> None:
        block = target_frame_ref()
        if block is not None and gid not in block.recomputed:
            block.recomputed[gid] = _Recomputed()
        original(self, target_frame_ref, gid)

    return __init__


class Detector(detector.Detector):
    """Compares what a block saves on its second run with what its backward then reads."""

    def patches(self) -> Iterator[Patch]:
        """The patches of torch."""
        again = getattr(checkpoints, "_recomputation_hook", None)
        if again is not None:
            why = "PyTorch does not check what a checkpointed block saves when it runs again."
            yield replaced(again, "__init__", _watched, why)
