"""The optimizers of a program: where each was made, what it steps, and its first steps."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from outplace.runtime.locate import names
from outplace.runtime.patches import tensor_writes
from outplace.runtime.patches.code_injection import injected
from outplace.runtime.patches.table import Patch, registered
from outplace.runtime.record.events import events
from outplace.runtime.record.log import Instruction
from outplace.runtime.record.snapshots import PLAIN
from outplace.runtime.record.untracked_aliases import Weak
from outplace.runtime.record.user_files import fields_of
from outplace.runtime.silent import reporting, scan

_get_frame = sys._getframe
_STEPS = 3
"""At most this many steps of an optimizer are examined."""


class Name(NamedTuple):
    """A name for a parameter: a variable of a function, or an attribute of an object."""

    holder: CodeType | Weak
    name: str
    tensor: Weak

    def now(self, frames: list[FrameType]) -> Any:
        """The present value of the name; None if it is unknown."""
        if isinstance(self.holder, CodeType):
            frame = next((item for item in frames if item.f_code is self.holder), None)
            return None if frame is None else frame.f_locals.get(self.name)
        owner = self.holder()
        return None if owner is None else vars(owner).get(self.name)


class Known:
    """An optimizer: where it was made, the names of its parameters there, and how many steps are still examined."""

    __slots__ = ("left", "names", "optimizer", "place", "watching")

    def __init__(self, optimizer: Any, place: Instruction) -> None:
        self.optimizer, self.place = Weak(optimizer), place
        self.names: list[Name] = []
        self.left, self.watching = _STEPS, False

    def parameters(self) -> list[Any]:
        """The parameters that it steps."""
        optimizer = self.optimizer()
        groups = [] if optimizer is None else optimizer.param_groups
        return [parameter for group in groups for parameter in group["params"]]


class Optimizers:
    """All optimizers. Their first steps, and those after `watch`, are events."""

    def __init__(self) -> None:
        self._known: dict[int, Known] = {}

    def __iter__(self) -> Iterator[Known]:
        return iter(self._known.values())

    def __bool__(self) -> bool:
        return bool(self._known)

    def patches(self) -> Iterator[Patch]:
        """The patches of torch."""
        why = "An optimizer's first steps are looked at."
        target = "torch.optim.Optimizer()._optimizer_step_post_hooks"
        yield registered(target, lambda: self._stop, why, "The hook of each optimizer is removed.")
        why = "The optimizers of a program and their parameters are known by it."
        yield injected(torch.optim.Optimizer.add_param_group, "param_group", "self", self._note, why)

    def _note(self, optimizer: Any) -> None:
        """A parameter group is being added, usually because the optimizer is being made."""
        if not tensor_writes.is_traced():
            scan.guarded(functools.partial(self._meet, optimizer, _get_frame(1)))

    def _meet(self, optimizer: Any, frame: FrameType) -> None:
        frames = names.own_frames(None, frame)
        if not frames:
            return
        key = id(optimizer)
        known = self._known.get(key)
        if known is None or known.optimizer() is not optimizer:
            for gone in [one for one, other in self._known.items() if other.optimizer() is None]:
                del self._known[gone]
            known = self._known[key] = Known(optimizer, (frames[0].f_code, frames[0].f_lasti))
            self.watch(known)
        known.names += _names_in(frames[0])

    def watch(self, known: Known) -> None:
        """Makes the optimizer's next steps events."""
        optimizer, known.left = known.optimizer(), _STEPS
        if optimizer is not None and not known.watching and hasattr(optimizer, "_optimizer_step_post_hooks"):
            known.watching = True
            optimizer._optimizer_step_post_hooks[_OURS] = _StepHook(known)

    def _stop(self) -> None:
        for known in self:
            getattr(known.optimizer(), "_optimizer_step_post_hooks", {}).pop(_OURS, None)
        self._known.clear()


def _names_in(frame: FrameType) -> list[Name]:
    """The leaves that the user's function has names for, and those of the object whose method it is."""
    found = [Name(frame.f_code, name, Weak(value)) for name, value in frame.f_locals.items() if is_leaf(value)]
    owner = frame.f_locals.get("self")
    with contextlib.suppress(TypeError):  # some objects have no weak references
        found += [Name(Weak(owner), name, Weak(value)) for name, value in fields_of(owner).items() if is_leaf(value)]
    return found


def is_leaf(value: Any) -> bool:
    """Is it a tensor in which backward accumulates a gradient?"""
    return type(value) in PLAIN and value.requires_grad and value.is_leaf


_OURS = -1
"""outplace's key among an optimizer's hooks; torch's own keys count from 0."""


class _StepHook:
    """Called after a step. Copying or pickling the optimizer turns it into a function that does nothing."""

    __slots__ = ("_known",)

    def __init__(self, known: Known) -> None:
        self._known = known

    def __call__(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if tensor_writes.is_traced():
            return
        known = self._known
        known.left -= 1
        if known.left <= 0 and len(optimizer._optimizer_step_post_hooks) == 1:
            # torch is iterating over the hooks now, so a new dict replaces this one.
            optimizer._optimizer_step_post_hooks = type(optimizer._optimizer_step_post_hooks)()
            known.watching = False
        if known.left >= 0 and known.optimizer() is optimizer:
            for listener in events.optimizer_step:
                scan.guarded(functools.partial(listener, known, _get_frame(1)))
            reporting.raise_if_strict()

    def __reduce__(self) -> Any:
        return _get_nothing, ()


def _get_nothing() -> Any:
    return _do_nothing


def _do_nothing(optimizer: Any, args: Any, kwargs: Any) -> None:
    pass
