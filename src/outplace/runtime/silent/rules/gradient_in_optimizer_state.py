"""Optimizers that store the last gradient by reference: `state["previous"] = p.grad`.

`zero_grad(set_to_none=False)` zeroes a gradient in place, and backward adds to it. So the stored gradient is that of
the next step, and the difference of both is always zero. The optimizer's state is examined after its first steps. It is
a bug only if the step reads that entry before it assigns it.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

import torch

from outplace.knowledge.silent_rules.gradients import GRADIENT_IN_OPTIMIZER_STATE
from outplace.model import Mutation
from outplace.runtime.locate import names, sites
from outplace.runtime.record import log
from outplace.runtime.record.snapshots import PLAIN
from outplace.runtime.record.storages import storage_of
from outplace.runtime.record.untracked_aliases import Weak
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.optimizers import Known


class _Kept(NamedTuple):
    """A gradient in an optimizer's state, with its contents after the step that stored it."""

    gradient: Weak
    version: int
    key: str


def _gradients_in(optimizer: Any, parameters: list[Any]) -> Iterator[tuple[torch.Tensor, str]]:
    for parameter in parameters:
        state = optimizer.state.get(parameter)
        if type(parameter.grad) in PLAIN and isinstance(state, dict):
            for key, value in state.items():
                if value is parameter.grad and isinstance(key, str):
                    yield value, key


def _reads_first(kind: type, key: str) -> bool:
    """Does the optimizer's step read this entry of the state before it assigns it?"""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(kind.step))))  # type: ignore[attr-defined]
    except (OSError, TypeError, SyntaxError):
        return False
    named = [node for node in ast.walk(tree) if isinstance(node, ast.Subscript | ast.Call) and _names(node, key)]
    assigned = [node.lineno for node in named if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)]
    read = [node.lineno for node in named if isinstance(node, ast.Call) or isinstance(node.ctx, ast.Load)]
    return bool(assigned and read) and min(read) < max(assigned)


def _names(node: ast.Subscript | ast.Call, key: str) -> bool:
    """Is it `state["key"]`, or `state.get("key", ...)`?"""
    named = node.slice if isinstance(node, ast.Subscript) else node.args[0] if node.args else None
    return isinstance(named, ast.Constant) and named.value == key


def _report(optimizer: Any, gradient: torch.Tensor, kept: _Kept) -> None:
    storage = storage_of(gradient)
    written = [write for write in log.current().writes if write.storage == storage and write.frames]
    written = [item for item in written if (item.before or 0) >= kept.version]
    if written:
        name = f'state["{kept.key}"]'
        found = names.described(gradient, name)
        words = {"name": name, "optimizer": type(optimizer).__name__}
        backwards = log.current().backwards[-1:]
        added = [Mutation("backward", sites.at_instruction(item.frames[-1]).site) for item in backwards if item.frames]
        reporting.tell(GRADIENT_IN_OPTIMIZER_STATE, found, (*scan.mutations_of(written), *added), words)


class Detector(detector.Detector):
    """Compares what one step leaves in the optimizer's state with what the next step finds there."""

    def __init__(self) -> None:
        self._kept: dict[int, list[_Kept]] = {}
        """What the last step of each optimizer left in its state."""

    def on_optimizer_step(self, known: Known, frame: FrameType) -> None:
        """Is a gradient that it stored earlier the same tensor that it now stepped with?"""
        optimizer, parameters = known.optimizer(), known.parameters()
        for item in self._kept.pop(id(optimizer), ()):
            gradient = item.gradient()
            if gradient is not None and gradient._version != item.version and _reads_first(type(optimizer), item.key):
                _report(optimizer, gradient, item)
                return
        kept = [_Kept(Weak(gradient), gradient._version, key) for gradient, key in _gradients_in(optimizer, parameters)]
        if kept:
            self._kept[id(optimizer)] = kept
