"""The state of a run: the frames of the running functions, and how a block can end."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable

from outplace.source.graph import Path
from outplace.source.project import Module
from outplace.source.values import Function, Scope, Value

_branches = itertools.count(1)


def next_branch() -> int:
    """A number for an undecided branch."""
    return next(_branches)


DEEPEST_CALL = 16
ROUNDS = 3
"""How often a loop of unknown length is gone through: what one round saves the next may overwrite, and state that a
round makes part of the graph is saved in the next. Loops inside loops: once less."""


class OutOfSteps(Exception):
    """The program is larger than what is worth following, or took too long."""


class Stop:
    """How a block ended: it ran through, or left by return, break, continue or raise."""

    RAN, RETURNED, BROKE, CONTINUED, RAISED = range(5)


LEAST_FINAL = (Stop.CONTINUED, Stop.BROKE, Stop.RETURNED, Stop.RAISED)


class Frame:
    """A running function: its scope, what it returned so far, and where it is."""

    __slots__ = (
        "args",
        "at_yield",
        "calling",
        "function",
        "module",
        "name",
        "return_paths",
        "returns",
        "scope",
        "yields",
    )

    def __init__(self, module: Module, scope: Scope, name: str, function: Function | None = None) -> None:
        self.module, self.scope, self.name, self.function = module, scope, name, function
        self.args: list[Value] = []
        """What it was called with, by place and then by name."""
        self.returns: list[Value] = []
        self.return_paths: list[Path] = []
        self.yields: list[Value] = []
        self.calling: ast.AST | None = None
        """The call that it is in, while another function runs."""
        self.at_yield: Callable[[Value], None] | None = None
        """What runs at a `yield`: the block of the `with` statement that a context manager was entered by."""


def function_of(frame: Frame, running: list[Frame]) -> Frame:
    """The function that a comprehension stands in; any other frame is its own."""
    outer = next((other for other in reversed(running) if other.scope is frame.scope.outer), None)
    if frame.function is not None or outer is None or outer.name != frame.name:
        return frame
    return function_of(outer, running)
