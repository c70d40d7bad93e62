"""Does the program show the value of a loss before the step that its backward comes after?

A loss that is printed, logged or stored before the step has a value that the program has shown. A repair must then keep
this loss: if it were computed again after the step, the program would train on another value than it has shown.
"""

from __future__ import annotations

import ast

from outplace.knowledge.traits import reads_nothing, without_graph
from outplace.repair.facts.callees import callee_of, own_methods
from outplace.repair.forms.step_order.order import Order
from outplace.repair.syntax.calls import called_names, method_call
from outplace.repair.syntax.code import Code, Function
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import binds, flat, reads, reads_any, targets_of
from outplace.repair.syntax.moves import simple_statements

_DEEPEST = 3
"""How many levels of called functions are followed."""
_OF_A_GRAPH = ("backward", "grad", "step")
"""Calls that take a loss and show nothing of it: `loss.backward()`, `autograd.grad(loss, w)`, `trainer.step(loss)`."""


def is_reported(order: Order) -> bool:
    """Does something read the loss, or what is computed from it, before the failed backward, but no backward?"""
    block = order.code.block(order.outer_step)
    before = block[: block.index(order.outer_backward)]
    losses = {path for path in order.stale_paths if reads(order.outer_backward, path)}
    return any(_Reports(order.files, order.code).of(path, before, _DEEPEST) for path in sorted(losses))


def is_handed_in(order: Order) -> bool:
    """Is the loss of the failed backward an argument of the function, so that only its caller can compute it again?"""
    function = order.code.function(order.backward)
    backward = method_call(order.backward, "backward")
    if not isinstance(function, Function) or backward is None or not isinstance(backward.receiver, ast.Name):
        return False
    name = backward.receiver.id
    arguments = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    return name in arguments and not any(binds(node, name) for node in ast.walk(function) if node is not function)


def names_its_inputs(order: Order) -> bool:
    """`loss.backward(inputs=...)`: is the failed backward one of several parts of one gradient?

    Who divides the gradient among optimizers takes all of it at the same weights.
    """
    backward = method_call(order.backward, "backward")
    return backward is not None and any(keyword.arg == "inputs" for keyword in backward.call.keywords)


class _Reports:
    """Looks for reads of a value in a list of statements, and in the functions that they call."""

    def __init__(self, files: Files, code: Code) -> None:
        self._files, self._code = files, code

    def of(self, path: str, statements: list[ast.stmt], depth: int) -> bool:
        """Is the value of this name reported, where it is made or after it?"""
        names, found = {path}, False
        for statement in simple_statements(statements):
            if isinstance(statement, ast.Assert):
                continue
            if binds(statement, path):
                names, found = {path}, depth > 0 and self._where_made(statement, path, depth)
            elif _reports(self._code, statement, names) or (depth > 0 and self._in_called(statement, path, depth)):
                found = True
            elif isinstance(statement, ast.Assign | ast.AugAssign) and reads_any([statement.value], names):
                names |= {ast.unparse(target) for target in flat(targets_of(statement))}
        return found

    def _where_made(self, statement: ast.stmt, path: str, depth: int) -> bool:
        """`d_loss, g_loss = losses(real)`: does that function report what it returns in this place?"""
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            return False
        callee = callee_of(self._files, self._code, statement.value)
        if callee is None:
            return False
        code, function, _ = callee
        places = [ast.unparse(target) for target in flat(statement.targets)]
        for node in ast.walk(function):
            value = node.value if isinstance(node, ast.Return) else None
            parts = value.elts if isinstance(value, ast.Tuple) else [value]
            given = parts[places.index(path)] if len(parts) == len(places) else value
            if isinstance(given, ast.Name) and _Reports(self._files, code).of(given.id, function.body, depth - 1):
                return True
        return False

    def _in_called(self, statement: ast.stmt, path: str, depth: int) -> bool:
        """`self.log()`, which reads `self.g_loss`; a method that makes it and reports it."""
        return path.startswith("self.") and any(
            _Reports(self._files, code).of(path, function.body, depth - 1)
            for code, function in own_methods(self._files, self._code, statement)
        )


def _reports(code: Code, statement: ast.stmt, names: set[str]) -> bool:
    """Does it read one of these values for anything but another value with a graph, or a backward?"""
    found = [part for part in ast.walk(statement) if isinstance(part, ast.Name | ast.Attribute)]
    loads = [part for part in found if isinstance(part.ctx, ast.Load) and ast.unparse(part) in names]
    above = [(part, code.parents.get(part)) for part in loads]
    values = [part for part, asks in above if not (isinstance(asks, ast.Attribute) and reads_nothing(asks.attr))]
    if not values or any(_leaves_the_graph(code.parents.get(value)) for value in values):
        return bool(values)
    targets = flat(targets_of(statement))
    is_computed = bool(targets) and not any(isinstance(target, ast.Subscript) for target in targets)
    return not is_computed and not isinstance(statement, ast.Return) and not called_names(statement) & {*_OF_A_GRAPH}


def _leaves_the_graph(above: ast.AST | None) -> bool:
    """`loss.item()`, `loss.detach()`, `float(loss)`, `f"{loss}"`"""
    if isinstance(above, ast.Attribute):
        return without_graph(above.attr)
    if isinstance(above, ast.Call):
        return isinstance(above.func, ast.Name) and above.func.id in ("float", "print", "str", "repr", "format")
    return isinstance(above, ast.FormattedValue)
