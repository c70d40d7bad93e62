"""The state of a run: the frames of the running functions, and how a block can end."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable

from outplace.source.graph import Path
from outplace.source.project import Module, Project
from outplace.source.values import Args, Function, Scope, Value

_branches = itertools.count(1)


def next_branch() -> int:
    """Returns a new number for an undecided branch."""
    return next(_branches)


DEEPEST_CALL = 16
ROUNDS = 3
"""How often a loop of unknown length is run. What one iteration saves, the next may overwrite; state that one iteration
makes a part of the graph is saved in the next. A loop inside another loop runs once less.
"""


class OutOfSteps(Exception):
    """The program is too large to follow, or took too long."""


def require_time(project: Project) -> None:
    """Ends the run if the time of the file is over. For work within one step that may take long."""
    if project.is_out_of_time():
        raise OutOfSteps


class Stop:
    """How a block ended: it ran to its end, or left by return, break, continue or raise."""

    RAN, RETURNED, BROKE, CONTINUED, RAISED = range(5)


LEAST_FINAL = (Stop.CONTINUED, Stop.BROKE, Stop.RETURNED, Stop.RAISED)


class Frame:
    """A running function: its scope, what it has returned so far, and where it is."""

    __slots__ = (
        "args",
        "at_yield",
        "calling",
        "consumer",
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
        self.args: Args = []
        """Its arguments, first the positional ones, then those by keyword."""
        self.returns: list[Value] = []
        self.return_paths: list[Path] = []
        self.yields: list[Value] = []
        self.calling: ast.AST | None = None
        """The call that it waits for, while another function runs."""
        self.at_yield: Callable[[Value], None] | None = None
        """What runs at a `yield`: the block of the `with` statement that entered the context manager."""
        self.consumer: Frame | None = None
        """The function whose loop or `with` statement runs at a `yield`."""

    def scopes(self) -> list[Scope]:
        """Returns its scope, and those of the functions that run at its `yield`."""
        return [self.scope, *(self.consumer.scopes() if self.consumer is not None else ())]


def function_of(frame: Frame, running: list[Frame]) -> Frame:
    """Returns the frame of the function around a comprehension. Any other frame is returned itself."""
    outer = next((other for other in reversed(running) if other.scope is frame.scope.outer), None)
    if frame.function is not None or outer is None or outer.name != frame.name:
        return frame
    return function_of(outer, running)
