"""`x[mask].zero_()`, `x[rows][:, 2] -= 1`: the index makes a copy, and the copy is gone when the statement ends.

An index makes a copy if it is a mask, a list or a tensor: then what is written lies in other memory than the tensor
that was indexed. The source shows that nobody else gets the copy.
"""

from __future__ import annotations

import ast
from functools import partial

import torch

from outplace.knowledge.silent_rules.lost import WRITE_TO_INDEX_COPY
from outplace.knowledge.traits import method_has
from outplace.model import Tensor
from outplace.runtime.locate import sites
from outplace.runtime.record.log import Instruction, Write
from outplace.runtime.record.storages import storage_of
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.kept_before import value_at
from outplace.runtime.silent.operands import frame_of

_ENOUGH = 3


class Detector(detector.Detector):
    """Looks at the first writes of each line."""

    def __init__(self) -> None:
        self._looks: dict[Instruction, int] = {}

    def on_plain_write(self, write: Write, tensor: torch.Tensor) -> None:
        """A tensor is about to be written."""
        if write.frames and (looks := self._looks.get(write.frames[-1], 0)) < _ENOUGH:
            self._looks[write.frames[-1]] = looks + 1
            scan.guarded(partial(self._look, write, tensor))
            reporting.raise_if_strict()

    on_graph_write = on_no_grad_write = on_plain_write

    def _look(self, write: Write, tensor: torch.Tensor) -> None:
        parts = _written_alone(write)
        frame = frame_of(write) if parts else None
        if frame is None:
            self._looks[write.frames[-1]] = _ENOUGH
            return
        for part in parts:
            value = value_at(_without_views(part.value), frame)
            if isinstance(value, torch.Tensor):
                if None is not storage_of(value) != storage_of(tensor):
                    reporting.tell(WRITE_TO_INDEX_COPY, Tensor(ast.unparse(part)), scan.mutations_of([write]))
                break


def _without_views(node: ast.expr) -> ast.expr:
    """`layer.weight` of `layer.weight.data`."""
    while isinstance(node, ast.Attribute) and method_has(node.attr, "view_attribute"):
        node = node.value
    return node


def _written_alone(write: Write) -> list[ast.Subscript]:
    """`x[rows][:, 2]` and `x[rows]`, from the outside in: what the statement writes, and gives to nobody."""
    located = sites.at_instruction(write.frames[-1], write.operation)
    target, statement = sites.target_node(located, write.operation), located.statement
    if isinstance(statement, ast.Expr):
        alone = target is not None and sites.start_of_chain(statement.value) in (target, located.node)
    else:  # `x[rows] *= 2` is written back to `x` by the assignment that follows
        alone = isinstance(statement, ast.Assign | ast.AugAssign) and write.operation == "__setitem__"
    found: list[ast.Subscript] = []
    while alone and isinstance(target, ast.Subscript):
        found.append(target)
        target = target.value
    return found
