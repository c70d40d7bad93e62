"""A tensor that a Function stores as an attribute of its ctx, where PyTorch checks nothing, and that is written."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from types import FrameType
from typing import Any, NamedTuple

import torch

from outplace.knowledge.silent_rules.functions import TENSOR_KEPT_IN_CTX
from outplace.model import SavedTensor
from outplace.runtime.locate import graph, names, sites
from outplace.runtime.record import log
from outplace.runtime.record.log import Instruction
from outplace.runtime.record.storages import storage_of
from outplace.runtime.record.untracked_aliases import Weak
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.state_dicts import has_moved

_next_number = torch._C._autograd._get_sequence_nr


class _Kept(NamedTuple):
    """A tensor with its version when it was stored."""

    tensor: Weak
    version: int
    moment: int
    place: Instruction


class Detector(detector.Detector):
    """Records what is stored in a ctx, and compares its version when a backward starts."""

    def __init__(self) -> None:
        self.waiting: deque[_Kept] = deque(maxlen=1_000)

    def on_kept_in_ctx(self, tensor: torch.Tensor, frame: FrameType) -> None:
        """`ctx.name = tensor`."""
        if not tensor.is_inference():
            self.waiting.append(_Kept(Weak(tensor), tensor._version, _next_number(), (frame.f_code, frame.f_lasti)))

    def wants_to_look(self) -> bool:
        """Has one of them been written?"""
        return bool(self._changed())

    def _changed(self) -> list[_Kept]:
        return [kept for kept in self.waiting if has_moved(kept.tensor(), kept.version)]

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """Has something changed that a Function of this graph stores outside of `save_for_backward`?"""
        changed = self._changed()
        for node in nodes if changed else ():
            if not isinstance(node, torch.autograd.function.BackwardCFunction):
                continue
            number = graph.number_of(node) or 0
            attributes = [value for value in vars(node).values() if isinstance(value, torch.Tensor)]
            for kept in changed:
                tensor = kept.tensor()
                if tensor is not None and kept.moment >= number and any(tensor is value for value in attributes):
                    _tell(node, tensor, kept)


def _tell(node: Any, tensor: torch.Tensor, kept: _Kept) -> None:
    storage = storage_of(tensor)
    writes = [write for write in log.current().writes if write.storage == storage and write.moment >= kept.moment]
    written = [write for write in writes if write.frames]
    if written:
        site = sites.at_instruction(kept.place).site
        saver = SavedTensor(node.name(), "ctx", None, site, graph.number_of(node))
        found = names.described(tensor, scan.target_of(written[-1]))
        reporting.tell(TENSOR_KEPT_IN_CTX, found, scan.mutations_of(written), saved_by=saver)
