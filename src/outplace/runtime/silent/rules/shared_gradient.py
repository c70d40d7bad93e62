"""One tensor is the gradient of two leaves: backward adds the gradients of both to it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from types import FrameType
from typing import Any

import torch

from outplace.knowledge.silent_rules.gradients import SHARED_GRADIENT
from outplace.model import Mutation
from outplace.runtime.locate import names, sites
from outplace.runtime.record import hidden_writes
from outplace.runtime.record.log import Instruction
from outplace.runtime.record.snapshots import PLAIN
from outplace.runtime.record.untracked_aliases import Weak
from outplace.runtime.silent import detector, reporting

_BACKWARDS = 3
"""How many backwards are examined after an assignment."""


class _Shared:
    """A gradient that was assigned while another leaf had it."""

    __slots__ = ("gradient", "left", "place")

    def __init__(self, gradient: torch.Tensor, place: Instruction) -> None:
        self.gradient, self.place, self.left = Weak(gradient), place, _BACKWARDS


class Detector(detector.Detector):
    """Records assigned gradients, and finds two leaves of a backward that have the same one."""

    def __init__(self) -> None:
        self.waiting: list[_Shared] = []

    def on_gradient_assigned(self, gradient: torch.Tensor, frame: FrameType) -> None:
        """Is the assigned tensor also referenced from C++? Then it may be another leaf's gradient."""
        place = (frame.f_code, frame.f_lasti)
        if gradient._use_count() > 1 and hidden_writes.worth_a_look(place):
            self.waiting.append(_Shared(gradient, place))
            del self.waiting[:-100]

    def wants_to_look(self) -> bool:
        """Is there an assigned gradient that still has to be checked?"""
        self.waiting[:] = [item for item in self.waiting if item.left > 0 and item.gradient() is not None]
        return bool(self.waiting)

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """Do two leaves of this backward have one gradient?"""
        owners = _owners(nodes)
        for shared in self.waiting:
            shared.left -= 1
            gradient = shared.gradient()
            if gradient is not None and len(owners.get(id(gradient), ())) > 1:
                shared.left = 0
                _tell(shared, gradient)


def _owners(nodes: Iterable[Any]) -> dict[int, list[Any]]:
    """The leaves of a graph, by the identity of their gradients."""
    owners: dict[int, list[Any]] = {}
    for node in nodes:
        for following, _ in node.next_functions:
            leaf: Any = getattr(following, "variable", None)
            if type(leaf) in PLAIN and leaf.grad is not None:
                leaves = owners.setdefault(id(leaf.grad), [])
                if not any(item is leaf for item in leaves):
                    leaves.append(leaf)
    return owners


def _tell(shared: _Shared, gradient: torch.Tensor) -> None:
    located = sites.at_instruction(shared.place)
    statement = located.statement
    name = ast.unparse(statement.targets[0]) if isinstance(statement, ast.Assign) else None
    site = located.site if statement is None else sites.site_of(located.filename, statement, located.site.function)
    reporting.tell(SHARED_GRADIENT, names.described(gradient, name), (Mutation("grad =", site),))
