"""The statements of a step and of the backward after it, and a way to reorder them."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from outplace.repair.facts.bug import Intent, Keeps, Moment
from outplace.repair.forms.step_order.forward import may_run_again
from outplace.repair.syntax.calls import called_names, identifiers, method_call
from outplace.repair.syntax.code import Code, Loop
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import binds
from outplace.source.heuristics import is_gradient_name, steps_by_name

_GRAD_MODES = {"no_grad", "enable_grad", "set_grad_enabled", "requires_grad", "requires_grad_"}
"""Names with "grad" that are no gradients."""


@dataclass(frozen=True)
class Reordering:
    """One reordering: its title, what stays the same, and the edits."""

    title: str
    keeps: Keeps
    edits: list[Edit]
    file: str | None = None
    """Set if it is not the file of the moment."""
    plain: bool = False
    """Is this reordering safe without a run?

    It is if it only moves a loss, with everything it depends on, after the step of another loss. It is if it only moves
    an update after the next backward. And it is if the source shows that no step uses another gradient.
    """
    intent: Intent | None = None
    """The intent that it fits, if it does not fit both."""


@dataclass(frozen=True)
class Order:
    """The statements of the step and of the backward, and those of the block that contains both."""

    files: Files
    code: Code
    moment: Moment
    step: ast.stmt
    backward: ast.stmt
    outer_step: ast.stmt
    outer_backward: ast.stmt

    @property
    def loop(self) -> Loop | None:
        """The innermost loop that repeats both."""
        loops = [loop for loop in self.code.loops(self.step) if loop in self.code.loops(self.backward)]
        return loops[0] if loops else None

    @property
    def stale(self) -> list[str]:
        """The names whose values need the weights from before the step, or objects that hold such values (`dist`).

        If no run has shown this, all names that may be in a graph.
        """
        paths = [
            path
            for path in self.moment.stale or self.moment.held
            if self.moment.held.get(path) in ("tensor", "distribution")
        ]
        names = [path.split(".")[0] for path in paths]
        scope = self.code.scope(self.step)
        own = {name for name, path in zip(names, paths, strict=True) if name == path or self._made_in(scope, name)}
        return [name for name in dict.fromkeys(names) if name in own]

    @property
    def stale_paths(self) -> list[str]:
        """The same, with the attributes that hold such values."""
        return [*self.stale, *(path for path in self.moment.stale or self.moment.held if "." in path)]

    def _made_in(self, scope: ast.AST, name: str) -> bool:
        """Is it an object that a forward has made, not a network?"""
        assignments = [node for node in ast.walk(scope) if isinstance(node, ast.Assign) and binds(node, name)]
        return bool(assignments) and all(may_run_again(self.files, self.code, node) for node in assignments)

    @property
    def in_one_iteration(self) -> bool:
        """Does the step come before the backward in the same pass through the block?"""
        return self.outer_step is not self.outer_backward and self.outer_step.lineno < self.outer_backward.lineno

    @property
    def shares_graph(self) -> bool:
        """Does a backward before the step retain its graph, for the later one?"""
        block = self.code.block(self.outer_step)
        before = block[: block.index(self.outer_step)]
        return self.in_one_iteration and any(goes_backward(item) and retains_graph(item) for item in before)


def order_of(files: Files, code: Code, moment: Moment) -> Order | None:
    """The order of the moment; None if no block contains both."""
    step, backward = statement_at(code, moment.step_line, "step"), statement_at(code, moment.backward_line, "backward")
    if step is None or backward is None or code.scope(step) is not code.scope(backward):
        return None
    above_step = [step, *(item for item in code.above(step) if isinstance(item, ast.stmt))]
    above_backward = [backward, *(item for item in code.above(backward) if isinstance(item, ast.stmt))]
    for item in above_step:
        for other in above_backward:
            if code.parents.get(item) is code.parents.get(other) and other in code.block(item):
                return Order(files, code, moment, step, backward, item, other)
    return None


def statement_at(code: Code, line: int, method: str = "") -> ast.stmt | None:
    """The innermost statement of a line; if the line has several, the one that calls this method."""
    found = [
        node
        for node in ast.walk(code.tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(
        found, key=lambda node: (node.lineno, -(node.end_lineno or 0), method in called_names(node)), default=None
    )


def only_steps(statement: ast.stmt) -> bool:
    """`opt.step()`, or a loop over optimizers that does nothing else."""
    if isinstance(statement, ast.For):
        return not statement.orelse and all(only_steps(item) for item in statement.body)
    return method_call(statement, "step") is not None


def stepping(statement: ast.stmt) -> str | None:
    """`opt` of `opt.step()` and of `scaler.step(opt)`."""
    step = method_call(statement, "step")
    return None if step is None else ast.unparse(step.call.args[0] if step.call.args else step.receiver)


def goes_backward(statement: ast.stmt) -> bool:
    """Does it call backward: `loss.backward()`?"""
    return method_call(statement, "backward") is not None


def clears(statement: ast.stmt) -> bool:
    """Does it clear gradients: `opt.zero_grad()`?"""
    return method_call(statement, "zero_grad") is not None


def takes_gradients(code: Code, write: ast.stmt) -> bool:
    """Does it, or a function of the file that it calls by name, read gradients or step an optimizer?"""
    called = called_names(write)
    parts = [write, *(function for function in code.every(ast.FunctionDef) if function.name in called)]
    names = set().union(*map(identifiers, parts)) - _GRAD_MODES
    calls = (call for part in parts for call in ast.walk(part) if isinstance(call, ast.Call))
    return any(map(is_gradient_name, names)) or any(map(steps_by_name, calls))


def retains_graph(statement: ast.stmt) -> bool:
    """Does it pass `retain_graph=` anything but False?"""
    flags = (node.value for node in ast.walk(statement) if isinstance(node, ast.keyword) and node.arg == "retain_graph")
    return any(not (isinstance(flag, ast.Constant) and flag.value is False) for flag in flags)
