"""Parameters that were stored without a copy, and are copied or assigned back after optimizer steps."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import torch

from outplace.knowledge.silent_rules.two_names import PARAMETERS_BY_REFERENCE
from outplace.runtime.locate import names, sites
from outplace.runtime.record import log, untracked_aliases
from outplace.runtime.record.snapshots import PLAIN, same_piece
from outplace.runtime.record.storages import storage_of
from outplace.runtime.record.untracked_aliases import Weak
from outplace.runtime.silent import detector, reporting, scan


class Detector(detector.Detector):
    """Examines what is copied or assigned to parameters."""

    def __init__(self) -> None:
        self._targets: deque[tuple[int, Callable[[], Any]]] = deque(maxlen=16)
        """The targets of the copies that are about to run. The calls may be nested."""

    def on_copy_target(self, value: Any, frame: FrameType) -> None:
        """The `x` of `x.copy_(source)`."""
        self._targets.append((id(frame), Weak(value) if type(value) in PLAIN else _nobody))

    def on_copy_source(self, source: Any, frame: FrameType) -> None:
        """Is the source of the copy the same memory as its target?"""
        where, target = 0, None
        while self._targets and where != id(frame):  # a call whose argument raised has left its target behind
            where, reference = self._targets.pop()
            target = reference()
        if where == id(frame) and target is not None and type(source) in PLAIN:
            _compare(source, target, frame)

    def on_data_assigned(self, tensor: Any, value: Any, frame: FrameType, sampled: bool) -> None:
        """`p.data = value`, where the value is a result of `.data` from before the last backward, or made of one."""
        if type(tensor) not in PLAIN:
            return
        if untracked_aliases.is_older(value, log.state.backwards):
            _compare(value, tensor, frame)
        elif sampled:
            scan.guarded(partial(_look_at_operands, tensor, frame))


def _look_at_operands(tensor: torch.Tensor, frame: FrameType) -> None:
    """`p.data = w + 0.5 * (p.data - w)`, where w is what was kept of p: both are the same."""
    statement = sites.at_instruction((frame.f_code, frame.f_lasti)).statement
    read = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)} if statement is not None else ()
    for name in read if isinstance(statement, ast.Assign) else ():
        value = frame.f_locals.get(name)
        if untracked_aliases.is_older(value, log.state.backwards):
            _compare(value, tensor, frame)


def _nobody() -> None:
    return None


def _compare(source: torch.Tensor, target: torch.Tensor, frame: FrameType) -> None:
    if same_piece(source, target):
        scan.guarded(lambda: _tell(target, frame))
        reporting.raise_if_strict()


def _tell(tensor: torch.Tensor, frame: FrameType) -> None:
    mutations = scan.steps_on({storage_of(tensor)}, -1)
    if mutations:
        located = sites.at_instruction((frame.f_code, frame.f_lasti), "copy_")
        assigned = located.statement.value if isinstance(located.statement, ast.Assign) else None
        source = located.node.args[0] if isinstance(located.node, ast.Call) and located.node.args else assigned
        name = None if source is None else ast.unparse(source)
        words = {"line": located.site.line}
        reporting.tell(PARAMETERS_BY_REFERENCE, names.described(tensor, name), mutations, words)
