"""`y[index] += v` with a repeated index: of several values for one element only one is added."""

from __future__ import annotations

import ast
from typing import Any

import torch

from outplace.knowledge.silent_rules.lost import REPEATED_INDEX
from outplace.model import Mutation, Tensor
from outplace.runtime.locate import sites
from outplace.runtime.record import hidden_writes
from outplace.runtime.record.log import Instruction
from outplace.runtime.record.snapshots import unobserved
from outplace.runtime.record.storages import is_wrapped
from outplace.runtime.silent import detector, reporting, scan


class Detector(detector.Detector):
    """Examines indices that are tensors."""

    def on_indexed(self, parts: tuple[Any, ...], place: Instruction) -> None:
        """The parts of an index: does one of them repeat an element?"""
        if hidden_writes.worth_a_look(place):
            scan.guarded(lambda: _look(parts, place))
            reporting.raise_if_strict()


def _look(parts: tuple[Any, ...], place: Instruction) -> None:
    repeated = _count_repeated(parts)
    if not repeated:
        return
    located = sites.at_instruction(place, "__setitem__")
    statement = located.statement
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    name = next((ast.unparse(target.value) for target in targets if isinstance(target, ast.Subscript)), None)
    times = "one index occurs" if repeated == 1 else f"{repeated} indices occur"
    reporting.tell(REPEATED_INDEX, Tensor(name), (Mutation("repeated index", located.site),), {"times": times})


def _count_repeated(parts: tuple[Any, ...]) -> int:
    with unobserved():
        tensors = [part for part in parts if type(part) is torch.Tensor and part.dtype in (torch.int64, torch.int32)]
        if len(tensors) != len(parts) or not tensors or any(map(is_wrapped, tensors)):
            return 0
        rows = torch.stack([part.reshape(-1) for part in torch.broadcast_tensors(*tensors)])
        return int(rows.shape[1] - torch.unique(rows, dim=1).shape[1])
