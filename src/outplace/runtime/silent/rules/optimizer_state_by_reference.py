"""An optimizer's `state_dict()` that was stored without a copy, and is loaded back after further steps.

It holds the momenta themselves. Each step changes them in place, so the stored state follows the optimizer.
"""

from __future__ import annotations

import ast
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

import torch

from outplace.knowledge.silent_rules.two_names import OPTIMIZER_STATE_BY_REFERENCE
from outplace.model import Tensor
from outplace.runtime.locate import sites
from outplace.runtime.patches import tensor_writes
from outplace.runtime.patches.code_injection import injected
from outplace.runtime.patches.table import Patch
from outplace.runtime.record.log import frames_to_own_code
from outplace.runtime.record.storages import storage_of
from outplace.runtime.record.untracked_aliases import Weak
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.state_dicts import has_moved

_get_frame = sys._getframe
_next_number = torch._C._autograd._get_sequence_nr


class _Taken(NamedTuple):
    """A tensor of a stored state, with its version at that time."""

    tensor: Weak
    version: int
    moment: int


class Detector(detector.Detector):
    """Records each `state_dict()`, and compares a state that is loaded back."""

    def __init__(self) -> None:
        self._taken: deque[_Taken] = deque(maxlen=64)

    def patches(self) -> Iterator[Patch]:
        """The patches of torch."""
        why = "An optimizer's state that is kept holds its momenta themselves, not copies."
        yield injected(torch.optim.Optimizer.state_dict, "optimizer_state", "self", self._note_taken, why)
        why = "An optimizer's state that is loaded back may have changed since it was taken."
        load = torch.optim.Optimizer.load_state_dict
        yield injected(load, "optimizer_load", "self, state_dict", self._note_loaded, why)

    def _note_taken(self, optimizer: Any) -> None:
        first = None if tensor_writes.is_traced() else next(_tensors(optimizer.state), None)
        if first is not None:
            self._taken.append(_Taken(Weak(first), first._version, _next_number()))

    def _note_loaded(self, optimizer: Any, state: Any) -> None:
        if not tensor_writes.is_traced() and isinstance(state, Mapping) and isinstance(state.get("state"), Mapping):
            scan.guarded(partial(self._compare, optimizer, state["state"], _get_frame(1)))
            reporting.raise_if_strict()

    def _compare(self, optimizer: Any, state: Mapping[Any, Any], frame: FrameType) -> None:
        """Does the state hold the optimizer's own tensors, and has the optimizer stepped since?"""
        own = {id(tensor) for tensor in _tensors(optimizer.state)}
        held = {id(tensor) for tensor in _tensors(state)} & own
        taken = next((entry for entry in reversed(self._taken) if id(entry.tensor()) in held), None)
        if taken is not None:
            since = taken.moment - has_moved(taken.tensor(), taken.version)
            parameters = (item for group in optimizer.param_groups for item in group["params"])
            mutations = scan.steps_on({storage_of(parameter) for parameter in parameters} - {None}, since)
            if mutations:
                places = frames_to_own_code(frame)
                call = sites.at_instruction(places[-1]).node if places else None
                name = ast.unparse(call.args[0]) if isinstance(call, ast.Call) and call.args else None
                reporting.tell(OPTIMIZER_STATE_BY_REFERENCE, Tensor(name), mutations)


def _tensors(state: Mapping[Any, Any]) -> Iterator[torch.Tensor]:
    """The momenta of all parameters. (A step may replace the step counter.)"""
    for entries in state.values():
        for key, value in entries.items() if isinstance(entries, Mapping) else ():
            if isinstance(value, torch.Tensor) and key != "step":
                yield value
