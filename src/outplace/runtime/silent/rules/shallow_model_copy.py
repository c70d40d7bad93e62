"""Two networks that are one: `for ours, theirs in zip(target.parameters(), net.parameters())` writes what it reads.

`copy.copy(net)`, or another name for the same network, was mistaken for a copy of it. Marked code passes both networks
of such a loop if its body writes.
"""

from __future__ import annotations

import weakref
from collections import deque
from types import FrameType
from typing import Any

import torch

from outplace.knowledge.silent_rules.two_names import SHALLOW_MODEL_COPY
from outplace.model import Mutation, Tensor
from outplace.runtime.locate import names
from outplace.runtime.record import hidden_writes
from outplace.runtime.record.storages import storage_of
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.state_dicts import Loaded


def _compare(first: Any, second: Any, frame: FrameType) -> None:
    ours, theirs = list(first.parameters()), list(second.parameters())
    if not ours or len(ours) != len(theirs) or any(a is not b for a, b in zip(ours, theirs, strict=True)):
        return
    storages = {storage_of(parameter) for parameter in ours} - {None}
    _report(first, second, scan.steps_on(storages, -1), frame)


def _report(network: Any, other: Any, mutations: tuple[Mutation, ...], frame: FrameType) -> None:
    """Reports that these two networks are one, if an optimizer steps it."""
    if mutations:
        stack = names.own_frames(None, frame)
        name = next((name for item in stack for name, value in item.f_locals.items() if value is network), None)
        how = "`copy.copy` copies references, not parameters" if network is not other else "it is another name for it"
        reporting.tell(SHALLOW_MODEL_COPY, Tensor(name), mutations, {"how": how})


class Detector(detector.Detector):
    """Compares the two networks of a loop, and a network that loads a state with the network the state came from."""

    def __init__(self) -> None:
        self._first: deque[tuple[int, weakref.ref[Any]]] = deque(maxlen=16)
        """The first network of a loop, with its frame, until the second is known."""

    def on_first_network(self, network: Any, frame: FrameType) -> None:
        """The first network of the loop."""
        if isinstance(network, torch.nn.Module):
            self._first.append((id(frame), weakref.ref(network)))

    def on_second_network(self, network: Any, frame: FrameType) -> None:
        """The second network of the loop: is it the first one?"""
        where, first = 0, None
        while self._first and where != id(frame):  # a loop whose second argument raised has left its first behind
            where, reference = self._first.pop()
            first = reference()
        if where != id(frame) or first is None or not isinstance(network, torch.nn.Module):
            return
        if hidden_writes.worth_a_look((frame.f_code, frame.f_lasti)):
            scan.guarded(lambda: _compare(first, network, frame))
            reporting.raise_if_strict()

    def on_own_state_loaded(self, loaded: Loaded) -> None:
        """One network loads the state of another that has the same parameters."""
        other, own = loaded.taken_from, loaded.own()
        if is_shallow_copy(loaded):
            _report(loaded.module, other, scan.steps_on(own, -1), loaded.frame)


def is_shallow_copy(loaded: Loaded) -> bool:
    """Are the module that loads a state and the module it came from two objects with the same parameters?"""
    other = loaded.taken_from
    two = type(other) is type(loaded.module) and other is not loaded.module
    return two and bool(loaded.own()) and loaded.own() <= loaded.held()
