"""Two networks that are one: `for ours, theirs in zip(target.parameters(), net.parameters())` writes what it reads.

`copy.copy(net)`, or another name for the same network, was mistaken for a copy of it. `ours.data = theirs.data` and
`load_state_dict(assign=True)` give both the same memory. Marked code passes both networks of such a loop if its body
writes. A network that took over the memory of another one is a bug when the optimizer of that one steps.
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
from outplace.runtime.record.snapshots import same_piece
from outplace.runtime.record.storages import storage_of
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.optimizers import Known
from outplace.runtime.silent.state_dicts import Loaded


def _compare(first: Any, second: Any, frame: FrameType) -> None:
    ours, theirs = list(first.parameters()), list(second.parameters())
    if not ours or len(ours) != len(theirs) or not all(map(same_piece, ours, theirs)):
        return
    storages = {storage_of(parameter) for parameter in ours} - {None}
    _report(first, second, scan.steps_on(storages, -1), frame)


def _report(network: Any, other: Any, mutations: tuple[Mutation, ...], frame: FrameType) -> None:
    """Reports that these two networks are one, if an optimizer steps it."""
    if mutations:
        stack = names.own_frames(None, frame)
        name = next((name for item in stack for name, value in item.f_locals.items() if value is network), None)
        how = "`copy.copy` copies references, not parameters" if network is not other else "it is another name for it"
        if network is not other and next(network.parameters()) is not next(other.parameters()):
            how = "`.data =` and `load_state_dict(assign=True)` take over the memory, they make no copy"
        reporting.tell(SHALLOW_MODEL_COPY, Tensor(name), mutations, {"how": how})


class Detector(detector.Detector):
    """Compares the two networks of a loop, and a network that loads a state with the network the state came from."""

    def __init__(self) -> None:
        self._first: deque[tuple[int, weakref.ref[Any]]] = deque(maxlen=16)
        """The first network of a loop, with its frame, until the second is known."""
        self._taken_over: deque[tuple[weakref.ref[Any], weakref.ref[Any]]] = deque(maxlen=16)
        """A network that loaded a state by `assign=True`, and the network that the state came from."""

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
        elif loaded.assign and isinstance(other, torch.nn.Module) and other is not loaded.module:
            self._taken_over.append((weakref.ref(loaded.module), weakref.ref(other)))

    def on_optimizer_step(self, known: Known, frame: FrameType) -> None:
        """Has it stepped a network whose memory another one took over?"""
        for reference, source in self._taken_over:
            network, other = reference(), source()
            if network is not None and other is not None:
                ours, theirs = list(network.parameters()), list(other.parameters())
                stepped = {id(parameter) for parameter in known.parameters()}
                alone = not any(id(parameter) in stepped for parameter in ours)
                if alone and any(id(b) in stepped and same_piece(a, b) for a, b in zip(ours, theirs, strict=False)):
                    storages = {storage_of(parameter) for parameter in theirs} - {None}
                    _report(network, other, scan.steps_on(storages, -1), frame)


def is_shallow_copy(loaded: Loaded) -> bool:
    """Are the module that loads a state and the module it came from two objects with the same parameters?"""
    other = loaded.taken_from
    two = type(other) is type(loaded.module) and other is not loaded.module
    return two and bool(loaded.own()) and loaded.own() <= loaded.held()
