"""Records each optimizer step with the versions of its parameters before and after it."""

from __future__ import annotations

import sys
import threading
import weakref
from array import array
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch.optim import optimizer as optimizers

from outplace.runtime.patches import tensor_writes
from outplace.runtime.patches.table import Patch, Undo, registered
from outplace.runtime.record import log, native
from outplace.runtime.record.log import frames_to_own_code
from outplace.runtime.record.snapshots import PLAIN
from outplace.runtime.record.user_files import own_files

_get_frame = sys._getframe
_get_ident = threading.get_ident
_mode_active = torch._C._is_torch_function_mode_enabled
_state = log.state

on_fused_step: Callable[[Any, FrameType], None] = lambda optimizer, frame: None  # noqa: E731
"""Called before each step of a fused optimizer."""


class _Known(NamedTuple):
    """The facts about an optimizer (`_native.c` reads them in this order)."""

    optimizer: weakref.ref[Any]
    own: bool
    """Is its class defined in the user's code?"""
    plain: bool
    """Are all its parameters plain tensors?"""
    name: str
    parameters: tuple[weakref.ref[torch.Tensor], ...]

    @classmethod
    def of(cls, optimizer: Any, own: bool, forget: Callable[[Any], object]) -> _Known:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        plain = all(type(p) in PLAIN for p in parameters)
        name = f"{type(optimizer).__name__}.step"
        return cls(weakref.ref(optimizer, forget), own, plain, name, tuple(weakref.ref(p) for p in parameters))


def _read_versions(groups: list[dict[str, Any]]) -> bytes:
    return array("Q", [parameter._version for group in groups for parameter in group["params"]]).tobytes()


if native.compiled is not None:
    _read_versions = native.compiled.versions


def _read_versions_unseen(groups: list[dict[str, Any]]) -> bytes:
    with torch._C.DisableTorchFunction():  # no mode or subclass of the user may see this
        return _read_versions(groups)


class _Hooks:
    """The hooks before and after each step. `_native.c` records plain steps, if it is compiled."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        self._begun: dict[int, list[tuple[_Known, bytes]]] = {}
        self._own_class: dict[type, bool] = {}

    def fastest(self) -> tuple[Callable[..., None], Callable[..., None]]:
        """The hooks to use: the compiled ones, unless Dynamo traces this program."""
        if native.compiled is None or tensor_writes.is_traced is not bool:
            return self.before, self.after
        native.compiled.connect_steps(_mode_active, self._known, self._begun, self.before, self.after)
        return native.compiled.before_step, native.compiled.after_step

    def before(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if tensor_writes.is_traced():
            return
        known = self._known.get(id(optimizer))
        if known is None or known.optimizer() is not optimizer:
            known = self._meet(optimizer)
        begun = self._begun.setdefault(_get_ident(), [])
        while begun and begun[-1][0].optimizer() is optimizer:  # left over from a step that raised
            _drop_last(begun)
        for group in optimizer.param_groups:
            if group.get("fused"):
                on_fused_step(optimizer, _get_frame(1))
                break
        if not known.own:
            _state.steps += 1
            closure = _args[1] if len(_args) > 1 else _kwargs.get("closure")
            _state.stepping = int(closure is None)
        if known.plain and not _mode_active():
            versions = _read_versions(optimizer.param_groups)
        else:
            versions = _read_versions_unseen(optimizer.param_groups)
        begun.append((known, versions))

    def after(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if tensor_writes.is_traced():
            return
        groups, begun = optimizer.param_groups, self._begun.get(_get_ident())
        while begun:
            known, before = _drop_last(begun)
            if known.optimizer() is optimizer:
                if not known.own:
                    if known.plain and not _mode_active():
                        versions = _read_versions(groups)
                    else:
                        versions = _read_versions_unseen(groups)
                    if len(versions) != 8 * len(known.parameters):
                        known = self._meet(optimizer)
                    frames = frames_to_own_code(_get_frame(1))
                    log.add_step(known.name, frames, known.parameters, before, versions)
                return

    def _meet(self, optimizer: Any) -> _Known:
        key, all_known = id(optimizer), self._known

        def forget(reference: Any) -> None:
            if key in all_known and all_known[key].optimizer is reference:
                del all_known[key]

        known = all_known[key] = _Known.of(optimizer, self._is_own(type(optimizer)), forget)
        return known

    def _is_own(self, kind: type) -> bool:
        """Is the optimizer's step written in the user's code? Then its own lines are recorded."""
        if kind not in self._own_class:
            step: Any = kind.step  # type: ignore[attr-defined]
            while hasattr(step, "__wrapped__"):
                step = step.__wrapped__
            self._own_class[kind] = hasattr(step, "__code__") and own_files[step.__code__.co_filename]
        return self._own_class[kind]


def _drop_last(begun: list[tuple[_Known, bytes]]) -> tuple[_Known, bytes]:
    known, before = begun.pop()
    if not known.own:
        _state.steps -= 1
        _state.stepping = 0
    return known, before


_registered: list[tuple[dict[int, Any], int, Callable[..., None]]] = []
"""The dicts in which optimizer hooks are registered, and the Python versions of the compiled hooks."""


def patches() -> Iterator[Patch]:
    """The hooks of all optimizers."""
    hooks, where = _Hooks(), "torch.optim.optimizer._global_optimizer_"
    why = "Before a step the versions of its parameters are read."
    yield registered(f"{where}pre_hooks", lambda: _register_before(hooks), why)
    why = "After a step the parameters whose versions have moved are noted as written by it."
    yield registered(f"{where}post_hooks", lambda: _register_after(hooks), why)


def _register_before(hooks: _Hooks) -> Undo:
    handle = optimizers.register_optimizer_step_pre_hook(hooks.fastest()[0])
    _registered.append((optimizers._global_optimizer_pre_hooks, handle.id, hooks.before))

    def undo() -> None:
        handle.remove()
        _registered.clear()
        _state.steps = _state.stepping = 0  # a step may be running, and its end will not be seen

    return undo


def _register_after(hooks: _Hooks) -> Any:
    handle = optimizers.register_optimizer_step_post_hook(hooks.fastest()[1])
    _registered.append((optimizers._global_optimizer_post_hooks, handle.id, hooks.after))
    return handle


def skip_when_traced() -> None:
    """From now on every hook in this module tests whether it is traced."""
    for hooks, key, hook in _registered:
        if key in hooks:
            hooks[key] = hook
