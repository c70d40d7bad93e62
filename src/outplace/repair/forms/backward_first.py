"""Moves the backward, with the statements it needs, before a write that must not affect it.

The write and all statements after it keep their order, so their values stay the same. A write that uses gradients
itself (an update by hand) is not passed: it would also use the gradients of this backward.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from outplace.repair.facts.bug import Moment
from outplace.repair.syntax.calls import called_names, identifiers, method_call
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.flow import targets_of
from outplace.source.heuristics import is_gradient_name, steps_by_name

_GRAD_MODES = {"no_grad", "enable_grad", "set_grad_enabled", "requires_grad", "requires_grad_"}
"""Names with "grad" that are no gradients."""


@dataclass(frozen=True)
class Earlier:
    """The edits that move a backward before a write."""

    edits: list[Edit]
    plain: bool
    """Does only the clearing of gradients move with it, past statements that use no gradients?"""


def backward_first(code: Code, moment: Moment) -> Earlier | None:
    """Moves the backward and the statements it needs before the write."""
    found = _in_one_block(code, moment)
    if found is None or takes_gradients(code, found[0]):
        return None
    write, backward = found
    block = code.block(write)
    between = block[block.index(write) + 1 : block.index(backward)]
    moved = [*needed(backward, between), backward]
    rest = [write, *(item for item in between if item not in moved)]
    changed, inputs = set().union(*map(_bound, rest)), set().union(*map(_read, moved))
    if changed & inputs or any(map(_leaves, between)):
        return None
    if not _all_whole(code, [write, *moved]):
        return None
    plain = all(map(clears, moved[:-1])) and not any(takes_gradients(code, item) for item in rest)
    return Earlier([lines_first(code, moved, write, backward)], plain)


def can_go_first(code: Code, statement: ast.stmt, passed: list[ast.stmt]) -> bool:
    """Can a statement go before these, as far as names show?"""
    bound = set[str]().union(*map(_bound, passed))
    read = set[str]().union(*map(_read, passed))
    apart = not bound & (_read(statement) | _bound(statement)) and not _bound(statement) & read
    return apart and not any(map(_leaves, [statement, *passed])) and _all_whole(code, [statement, *passed])


def _all_whole(code: Code, statements: list[ast.stmt]) -> bool:
    return all(_whole_lines(code, item) for item in statements)


def lines_first(code: Code, moved: list[ast.stmt], first: ast.stmt, last: ast.stmt) -> Edit:
    """Puts the lines of some statements before all other lines from the first statement to the last."""
    numbers = [number for item in moved for number in range(item.lineno, (item.end_lineno or 0) + 1)]
    end = last.end_lineno or last.lineno
    order = [*numbers, *(number for number in range(first.lineno, end + 1) if number not in numbers)]
    stop = code.offset(end, len(code.lines[end - 1].encode()))
    return Edit(code.offset(first.lineno, 0), stop, "\n".join(code.lines[number - 1] for number in order))


def clears(statement: ast.stmt) -> bool:
    """Does it clear gradients: `opt.zero_grad()`?"""
    return method_call(statement, "zero_grad") is not None


def _in_one_block(code: Code, moment: Moment) -> tuple[ast.stmt, ast.stmt] | None:
    """The statements of one block that write and that call backward, in this order."""
    write, backward = (_around(code, line) for line in (moment.step_line, moment.backward_line))
    for item in write:
        for other in backward:
            block = code.block(item)
            if item is not other and other in block and block.index(item) < block.index(other):
                return (item, other) if isinstance(other, ast.Expr) else None
    return None


def _around(code: Code, line: int) -> list[ast.stmt]:
    """The statements that contain a line, innermost first."""
    found = [
        node
        for node in ast.walk(code.tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return sorted(found, key=lambda node: -node.lineno)


def needed(backward: ast.stmt, between: list[ast.stmt]) -> list[ast.stmt]:
    """The statements that compute the loss, and those that clear its gradients."""
    names, found = _read(backward), []
    for item in reversed(between):
        if _bound(item) & names or "zero_grad" in called_names(item):
            found.append(item)
            names |= _read(item)
    return found[::-1]


def _read(node: ast.AST) -> set[str]:
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Load)}


def _bound(node: ast.AST) -> set[str]:
    stored = {item.id for item in ast.walk(node) if isinstance(item, ast.Name) and not isinstance(item.ctx, ast.Load)}
    return stored | {ast.unparse(target) for target in targets_of(node)}


def _leaves(node: ast.stmt) -> bool:
    return any(isinstance(item, ast.Return | ast.Break | ast.Continue | ast.Raise) for item in ast.walk(node))


def takes_gradients(code: Code, write: ast.stmt) -> bool:
    """Does it, or a function of the file that it calls by name, read gradients or step an optimizer?"""
    called = called_names(write)
    parts = [write, *(function for function in code.every(ast.FunctionDef) if function.name in called)]
    names = set().union(*map(identifiers, parts)) - _GRAD_MODES
    calls = (call for part in parts for call in ast.walk(part) if isinstance(call, ast.Call))
    return any(map(is_gradient_name, names)) or any(map(steps_by_name, calls))


def _whole_lines(code: Code, statement: ast.stmt) -> bool:
    block = code.block(statement)
    place = block.index(statement)
    alone = place + 1 == len(block) or block[place + 1].lineno > (statement.end_lineno or 0)
    return code.begins_line(statement) and alone
