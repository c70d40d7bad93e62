"""Two networks that are one: `for ours, theirs in zip(target.parameters(), net.parameters())` writes what it reads.

`copy.copy(net)`, or another name for the same network, was taken for a copy of it. Marked code shows us both networks
of such a loop, where its body writes.
"""

from __future__ import annotations

import weakref
from collections import deque
from types import FrameType
from typing import Any

import torch

from outplace.knowledge.silent_rules.two_names import SHALLOW_MODEL_COPY
from outplace.model import Mutation, Tensor
from outplace.runtime.locate import names, sites
from outplace.runtime.record import log
from outplace.runtime.silent import reporting, scan

_first: deque[tuple[int, weakref.ref[Any]]] = deque(maxlen=16)
"""The network that a loop names first, with its frame, until the second is known."""


def note_first(network: Any, frame: FrameType) -> None:
    """The network whose parameters the loop names first."""
    if isinstance(network, torch.nn.Module):
        _first.append((id(frame), weakref.ref(network)))


def note_second(network: Any, frame: FrameType) -> None:
    """The second one: is it the first?"""
    where, first = 0, None
    while _first and where != id(frame):  # a loop whose second argument raised has left its first behind
        where, reference = _first.pop()
        first = reference()
    if where != id(frame) or first is None or not isinstance(network, torch.nn.Module):
        return
    if scan.worth_a_look((frame.f_code, frame.f_lasti)):
        scan.guarded(lambda: _compare(first, network, frame))
        reporting.raise_if_strict()


def _compare(first: Any, second: Any, frame: FrameType) -> None:
    ours, theirs = list(first.parameters()), list(second.parameters())
    if not ours or len(ours) != len(theirs) or any(a is not b for a, b in zip(ours, theirs, strict=True)):
        return
    storages = {names.storage_of(parameter) for parameter in ours} - {None}
    report(first, second, changes_of(storages, -1), frame)


def report(network: Any, other: Any, mutations: tuple[Mutation, ...], frame: FrameType) -> None:
    """Tells that these two are one, if an optimizer steps it."""
    if mutations:
        stack = names.own_frames(None, frame)
        name = next((name for one in stack for name, value in one.f_locals.items() if value is network), None)
        how = "`copy.copy` copies references, not parameters" if network is not other else "it is another name for it"
        reporting.tell(SHALLOW_MODEL_COPY, Tensor(name), mutations, {"how": how})


def changes_of(storages: set[int | None], since: int) -> tuple[Mutation, ...]:
    """The optimizer steps on these storages."""
    steps = [step for step in log.current().steps if step.moment > since and step.frames]
    places = {step.frames[-1]: step for step in steps if _steps_on(step, storages)}
    return tuple(Mutation(step.operation, sites.at_instruction(place).site) for place, step in places.items())


def _steps_on(step: log.Step, storages: set[int | None]) -> bool:
    parameters = (reference() for reference in step.parameters)
    return any(parameter is not None and names.storage_of(parameter) in storages for parameter in parameters)
