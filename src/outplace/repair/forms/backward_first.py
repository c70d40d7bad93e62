"""Moves the backward, with the statements it needs, before a write that must not affect it.

The write and all statements after it keep their order, so their values stay the same. A write that uses gradients
itself (an update by hand) is not passed: it would also use the gradients of this backward.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from outplace.repair.facts.bug import Moment
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.flow import targets_of


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
    moved = needed(backward, between)
    rest = [write, *(item for item in between if item not in moved)]
    changed = {name for item in rest for name in _bound(item)}
    if changed & {name for item in [*moved, backward] for name in _read(item)} or any(map(_leaves, between)):
        return None
    if not all(_whole_lines(code, item) for item in [write, *moved, backward]):
        return None
    first, last = write.lineno, backward.end_lineno or backward.lineno
    numbers = [number for item in [*moved, backward] for number in range(item.lineno, (item.end_lineno or 0) + 1)]
    order = [*numbers, *(number for number in range(first, last + 1) if number not in numbers)]
    end = code.offset(last, len(code.lines[last - 1].encode()))
    edits = [Edit(code.offset(first, 0), end, "\n".join(code.lines[number - 1] for number in order))]
    plain = all(map(clears, moved)) and not any(takes_gradients(code, item) for item in rest)
    return Earlier(edits, plain)


def clears(statement: ast.stmt) -> bool:
    """Does it clear gradients: `opt.zero_grad()`?"""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "zero_grad"


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
        if _bound(item) & names or "zero_grad(" in ast.unparse(item):
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
    called = {
        node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        for node in ast.walk(write)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
    }
    functions = [node for node in ast.walk(code.tree) if isinstance(node, ast.FunctionDef) and node.name in called]
    texts = [ast.unparse(item).replace("no_grad", "").replace("requires_grad", "") for item in (write, *functions)]
    return any("grad" in text or "step(" in text for text in texts)


def _whole_lines(code: Code, statement: ast.stmt) -> bool:
    block = code.block(statement)
    place = block.index(statement)
    alone = place + 1 == len(block) or block[place + 1].lineno > (statement.end_lineno or 0)
    return code.begins_line(statement) and alone
