"""The `state_dict()` and `load_state_dict()` calls of a program's modules."""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any, NamedTuple

import torch

from outplace.runtime.patches import caller_frames, tensor_writes
from outplace.runtime.patches.table import Patch, replaced
from outplace.runtime.record.events import events
from outplace.runtime.record.snapshots import unobserved
from outplace.runtime.record.storages import storage_of
from outplace.runtime.record.untracked_aliases import Weak
from outplace.runtime.silent import reporting, scan

_get_frame = sys._getframe
_next_number = torch._C._autograd._get_sequence_nr


class Loaded(NamedTuple):
    """A state that a module is about to load, and that holds the parameters of a module themselves."""

    module: Any
    state: Mapping[str, Any]
    since: int
    """When `state_dict()` was called."""
    taken_from: Any
    """The module that the state came from, if it is still alive."""
    frame: FrameType
    assign: bool = False
    """Does the module take over the tensors of the state?"""

    def own(self) -> set[int | None]:
        """The storages of the module that loads the state."""
        return {storage_of(parameter) for parameter in self.module.parameters()} - {None}  # wrappers have none

    def held(self) -> set[int | None]:
        """The storages of the state."""
        return {storage_of(value) for value in self.state.values() if isinstance(value, torch.Tensor)} - {None}


class _Taken(NamedTuple):
    """A tensor of a `state_dict()` with its version, the time of the call, and the module."""

    first: Weak
    storage: int | None
    version: int
    moment: int
    module: Weak


class StateDicts:
    """Sees the `state_dict()` and `load_state_dict()` calls of modules."""

    def __init__(self) -> None:
        self._taken: deque[_Taken] = deque(maxlen=64)

    def patches(self) -> Iterator[Patch]:
        """The patches of torch."""
        why = "A state dict that is kept holds the parameters themselves, not copies."
        yield replaced(torch.nn.Module, "state_dict", self._make_state_dict, why)
        why = "A state dict that is loaded back may have changed since it was taken."
        yield replaced(torch.nn.Module, "load_state_dict", self._make_load_state_dict, why)

    def _make_state_dict(self, original: Any) -> Any:
        @functools.wraps(original)
        def state_dict(module: Any, *args: Any, **kwargs: Any) -> Any:
            if tensor_writes.is_traced():
                return original(module, *args, **kwargs)
            result = caller_frames.call(_get_frame(1), original, (module, *args), kwargs)
            for listener in events.state_dict:
                listener(module)
            if not args and "destination" not in kwargs:
                self._note_taken(module, result)
            return result

        return state_dict

    def _note_taken(self, module: Any, state: Mapping[str, Any]) -> None:
        first = next((value for value in state.values() if isinstance(value, torch.Tensor)), None)
        if first is not None:
            with unobserved():
                version = -1 if first.is_inference() else first._version
            self._taken.append(_Taken(Weak(first), storage_of(first), version, _next_number(), Weak(module)))

    def _make_load_state_dict(self, original: Any) -> Any:
        @functools.wraps(original)
        def load_state_dict(module: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
            if not tensor_writes.is_traced():
                for listener in events.load_state_dict:
                    listener(module)
                if hasattr(state_dict, "values"):
                    assign = bool(kwargs.get("assign", len(args) > 1 and args[1]))
                    self._note_loaded(module, state_dict, _get_frame(1), assign)
            return original(module, state_dict, *args, **kwargs)

        return load_state_dict

    def _note_loaded(self, module: Any, state: Mapping[str, Any], frame: FrameType, assign: bool) -> None:
        taken, first = self._taken_as(state)
        if taken is not None:
            # If no node was made in between, the version tells which of the two came first.
            moved = taken.version >= 0 and has_moved(first, taken.version)
            since = taken.moment - 1 if moved else taken.moment
            loaded = Loaded(module, state, since, taken.module(), frame, assign)
            for listener in events.own_state_loaded:
                scan.guarded(functools.partial(listener, loaded))
            reporting.raise_if_strict()

    def _taken_as(self, state: Mapping[str, Any]) -> tuple[_Taken | None, torch.Tensor | None]:
        """The call that this state is from, and one of its tensors. `v.detach().cpu()` is another tensor over it."""
        held = {id(value) for value in state.values()}
        for entry in reversed(self._taken):
            if id(entry.first()) in held:
                return entry, entry.first()
        lying = {storage_of(value): value for value in state.values() if isinstance(value, torch.Tensor)}
        for entry in reversed(self._taken):
            module = entry.module()
            if entry.storage in lying and module is not None:
                own = {storage_of(value) for value in (*module.parameters(), *module.buffers())}
                return (entry, lying[entry.storage]) if entry.storage in own else (None, None)
        return None, None


def has_moved(tensor: torch.Tensor | None, version: int) -> bool:
    """Has the tensor been written since it had this version?"""
    with torch._C.DisableTorchFunction():
        return tensor is not None and tensor._version != version
