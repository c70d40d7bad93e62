"""`x.data = y` detaches: `main.weight.data = hyper(z)` copies the values and drops their graph.

The new values are trained as if they were constants, and the parameters that they were computed from get no gradient.
Each assignment is recorded with the leaves behind its value. It is a bug if an optimizer's first steps find no gradient
on any of its parameters while `x` has one: backward stopped there.
"""

from __future__ import annotations

import ast
from collections import deque
from functools import partial
from itertools import islice
from types import FrameType
from typing import Any, NamedTuple

import torch

from outplace.knowledge.silent_rules.lost import DATA_ASSIGN_DETACHES
from outplace.model import Mutation
from outplace.runtime.locate import graph, names, sites
from outplace.runtime.record.log import Instruction, frames_to_own_code
from outplace.runtime.record.snapshots import PLAIN
from outplace.runtime.record.untracked_aliases import Weak
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.optimizers import Known

_MOST_NODES = 2_000


class _Cut(NamedTuple):
    """An assignment: its target, and the leaves that the value was computed from."""

    target: Weak
    leaves: tuple[Weak, ...]
    place: Instruction


def _tell(found: dict[Instruction, torch.Tensor]) -> None:
    located = [sites.at_instruction(place) for place in found]
    statements = [item.statement for item in located]
    targets = [statement.targets[0].value for statement in statements if _is_assignment(statement)]  # type: ignore[union-attr]
    name = ast.unparse(targets[0]) if targets else None
    shown = [
        sites.site_of(item.filename, item.statement, item.site.function) if item.statement is not None else item.site
        for item in located
    ]
    mutations = tuple(Mutation(".data =", site) for site in dict.fromkeys(shown))
    reporting.tell(DATA_ASSIGN_DETACHES, names.described(next(iter(found.values())), name), mutations)


def _is_assignment(statement: ast.stmt | None) -> bool:
    return isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Attribute)


class Detector(detector.Detector):
    """Records assignments of computed values, and examines the first steps of optimizers."""

    def __init__(self) -> None:
        self._cuts: deque[_Cut] = deque(maxlen=200)

    def on_data_assigned(self, target: Any, value: Any, frame: FrameType, sampled: bool) -> None:
        """`target.data = value` runs: does the value have a graph?"""
        if sampled and torch.is_grad_enabled():
            with torch._C.DisableTorchFunction():
                has_graph = getattr(value, "grad_fn", None) is not None
            if has_graph:
                scan.guarded(partial(self._note, target, value, frames_to_own_code(frame)[-1]))

    def _note(self, target: Any, value: Any, place: Instruction) -> None:
        leaves = [getattr(node, "variable", None) for node in islice(graph.walk([value.grad_fn]), _MOST_NODES)]
        others = [Weak(leaf) for leaf in leaves if type(leaf) in PLAIN and leaf is not target]
        if others:
            self._cuts.append(_Cut(Weak(target), tuple(others), place))

    def on_optimizer_step(self, known: Known, frame: FrameType) -> None:
        """Do all its parameters lack a gradient because an assignment dropped the graph?"""
        parameters = known.parameters()
        trained = {id(parameter) for parameter in parameters if parameter.requires_grad}
        if not self._cuts or not trained or any(parameter.grad is not None for parameter in parameters):
            return
        found = {
            cut.place: target
            for cut in self._cuts
            if (target := cut.target()) is not None
            and names.gradient_of(target) is not None
            and any(id(leaf()) in trained for leaf in cut.leaves)
        }
        if found:
            _tell(found)
