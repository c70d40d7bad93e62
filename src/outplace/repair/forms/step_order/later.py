"""A loss that is computed too early: computed after the step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from outplace.repair.forms.step_order.forward import draws, remade
from outplace.repair.forms.step_order.lines import binds_within, names_bound, pasted, whole_lines
from outplace.repair.forms.step_order.order import Order, Reordering
from outplace.repair.syntax.code import Function
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.flow import reads


def computed_later(order: Order) -> Iterator[Reordering]:
    """Moves what only the later backward needs behind the step; what both losses are made from is made anew there."""
    code = order.code
    block = code.block(order.outer_step)
    first, last = block.index(order.outer_step), block.index(order.outer_backward)
    moved: list[ast.stmt] = []
    wanted = {node.id for node in ast.walk(order.outer_backward) if isinstance(node, ast.Name)}
    for index in range(first - 1, -1, -1):
        statement = block[index]
        if not isinstance(statement, ast.Assign) or not _all_names(statement):
            continue
        bound = names_bound(statement)
        if not wanted.intersection(bound) or draws(code, statement):
            continue
        if order.moment.stale and not set(order.stale).intersection(bound):
            continue  # the step changes nothing about it
        between = [one for one in block[index + 1 : last] if one not in moved]
        if any(reads(one, name) or binds_within(one, name) for one in between for name in bound):
            continue  # others need it where it is
        own = {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}
        if any(binds_within(one, name) for one in block[index + 1 : first + 1] if one not in moved for name in own):
            continue
        moved.insert(0, statement)
        wanted |= own
    if not moved or not all(whole_lines(code, one) for one in moved):
        return
    cuts = [Edit(code.offset(one.lineno, 0), code.offset((one.end_lineno or one.lineno) + 1, 0), "") for one in moved]
    texts = [line for one in moved for line in code.lines[one.lineno - 1 : one.end_lineno]]
    names = ", ".join(f"`{name}`" for name in names_bound(moved[-1]))
    title = f"Compute {names} after the step, with the new weights"
    if any(isinstance(node, ast.Call) for one in moved for node in ast.walk(one)):
        plain = _has_its_own_loss(order, moved)
        yield Reordering(title, "earlier", [*cuts, pasted(code, order.outer_step, texts)], plain=plain)
    behind = block[first + 1]
    bound_there = {name for one in moved for name in names_bound(one)}
    shared = [name for name in order.stale if name in wanted and name not in bound_there]
    again = remade(code, behind, shared, order.stale) if shared else None
    if again is not None:
        lines = [f"{code.indent(order.outer_step)}{text}" for text in again.lines] + texts
        yield Reordering(title, "earlier", [*cuts, pasted(code, order.outer_step, lines)])


def _has_its_own_loss(order: Order, moved: list[ast.stmt]) -> bool:
    """Does the step follow the backward of another loss? Else it may be the backward that comes too late."""
    names = {name for one in moved for name in names_bound(one)}
    block = order.code.block(order.outer_step)
    between = block[block.index(moved[0]) : block.index(order.outer_step) + 1]
    for node in (node for one in between if not isinstance(one, Function) for node in ast.walk(one)):
        if isinstance(node, ast.Attribute) and node.attr == "backward":
            return not (isinstance(node.value, ast.Name) and node.value.id in names)
    calls = [one.value for one in (order.outer_step, order.outer_backward) if isinstance(one, ast.Expr)]
    helpers = {ast.unparse(call.func) for call in calls if isinstance(call, ast.Call)}  # `update(opt, loss)`, twice
    return len(calls) == 2 and len(helpers) == 1


def _all_names(statement: ast.Assign) -> bool:
    """Does it bind plain names only?"""
    return all(
        isinstance(item, ast.Name)
        for target in statement.targets
        for item in (target.elts if isinstance(target, ast.Tuple) else [target])
    )
