"""Computes after the step what only the later backward needs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from outplace.repair.facts.callees import callee_of
from outplace.repair.forms.step_order.forward import draws, remade
from outplace.repair.forms.step_order.lines import (
    binds_within,
    listed,
    moved_behind,
    names_bound,
    names_bound_within,
    pasted,
    removed,
    text_of,
    whole_lines,
)
from outplace.repair.forms.step_order.order import Order, Reordering
from outplace.repair.syntax.calls import method_call
from outplace.repair.syntax.code import Code, Function
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import binds, names_in, reads


def moved(order: Order) -> Iterator[Reordering]:
    """Moves what only the later backward needs after the step. What both losses depend on is computed again there."""
    code = order.code
    late = _needed_late(order)
    if not late or not all(whole_lines(code, item) for item in late):
        return
    title = f"Compute {listed(names_bound(late[-1]))} after the step, with the new weights"
    if any(isinstance(node, ast.Call) for item in late for node in ast.walk(item)):
        plain = _has_its_own_loss(order, late)
        yield Reordering(title, "earlier", moved_behind(code, late, order.outer_step), plain=plain)
    inputs = names_in(order.outer_backward).union(*(names_in(item.value) for item in late))
    bound = {name for item in late for name in names_bound(item)}
    shared = [name for name in order.stale if name in inputs - bound]
    block = code.block(order.outer_step)
    again = remade(code, block[block.index(order.outer_step) + 1], shared, order.stale) if shared else None
    if again is not None:
        lines = [f"{code.indent(order.outer_step)}{text}" for text in again.lines]
        yield Reordering(title, "earlier", moved_behind(code, late, order.outer_step, lines))


def _needed_late(order: Order) -> list[ast.Assign]:
    """The assignments before the step that only the later backward needs, and that the step affects."""
    block = order.code.block(order.outer_step)
    first, last = block.index(order.outer_step), block.index(order.outer_backward)
    late: list[ast.Assign] = []
    wanted = names_in(order.outer_backward)
    for index in range(first - 1, -1, -1):
        statement = block[index]
        if not isinstance(statement, ast.Assign) or not _all_names(statement) or draws(order.code, statement):
            continue
        bound, inputs = names_bound(statement), names_in(statement.value)
        is_stale = not order.moment.stale or set(order.stale).intersection(bound)
        if not is_stale or not wanted.intersection(bound):
            continue
        others = [item for item in block[index + 1 : last] if item not in late]
        if any(reads(item, name) or binds_within(item, name) for item in others for name in bound):
            continue  # other statements need it where it is
        passed = [item for item in block[index + 1 : first + 1] if item not in late]
        if not any(binds_within(item, name) for item in passed for name in inputs):
            late.insert(0, statement)
            wanted |= inputs
    return late


def _has_its_own_loss(order: Order, moved: list[ast.Assign]) -> bool:
    """Does the step follow the backward of another loss? Else it may be the backward that comes too late."""
    names = {name for item in moved for name in names_bound(item)}
    block = order.code.block(order.outer_step)
    between = block[block.index(moved[0]) : block.index(order.outer_step) + 1]
    for node in (node for item in between if not isinstance(item, Function) for node in ast.walk(item)):
        if isinstance(node, ast.Attribute) and node.attr == "backward":
            return not (isinstance(node.value, ast.Name) and node.value.id in names)
    calls = [item.value for item in (order.outer_step, order.outer_backward) if isinstance(item, ast.Expr)]
    helpers = {ast.unparse(call.func) for call in calls if isinstance(call, ast.Call)}  # `update(opt, loss)`, twice
    return len(calls) == 2 and len(helpers) == 1


def _all_names(statement: ast.Assign) -> bool:
    """Does it bind only plain names?"""
    return all(
        isinstance(item, ast.Name)
        for target in statement.targets
        for item in (target.elts if isinstance(target, ast.Tuple) else [target])
    )


def kept_by_an_object(order: Order, files: Files) -> Iterator[Reordering]:
    """An object stores a loss that a method computed too early: moves the line, or the call, after the step."""
    yield from filter(None, (_line_behind(order), _call_behind(order, files)))


def _line_behind(order: Order) -> Reordering | None:
    """A method computed `self.loss_g` before the step: moves that line after the step."""
    code, owner, loss = order.code, order.code.class_of(order.backward), _loss(order.backward)
    if loss is None or owner is None or not isinstance(code.function(order.backward), Function):
        return None
    path = ast.unparse(loss)
    assignments = [node for node in ast.walk(owner) if isinstance(node, ast.Assign) and binds(node, path)]
    if len(assignments) != 1 or not _can_move(order, assignments[0], path):
        return None
    deep = len(code.indent(assignments[0]))
    lines = [code.indent(order.outer_step) + line[deep:] for line in text_of(code, assignments)]
    title = f"Compute `{path}` after the step, with the new weights"
    return Reordering(title, "earlier", [removed(code, assignments[0]), pasted(code, order.outer_step, lines)])


def _can_move(order: Order, made: ast.Assign, path: str) -> bool:
    """Can this assignment of another method move after the step, with the same result?"""
    code, home = order.code, order.code.function(made)
    if not isinstance(home, Function) or len(code.block(made)) < 2 or not whole_lines(code, made):
        return False
    block = code.block(order.outer_step)
    before = block[: block.index(order.outer_step) + 1]
    if any(reads(item, path) for item in [*home.body, *before] if item is not made):
        return False
    needed = {ast.unparse(part) for part in ast.walk(made.value) if isinstance(part, ast.Name | ast.Attribute)}
    if any(binds(item, name) for item in before for name in needed):
        return False
    local = {arg.arg for arg in home.args.args[1:]}.union(*map(names_bound_within, home.body))
    return home is code.function(order.backward) or not local & needed


def _call_behind(order: Order, files: Files) -> Reordering | None:
    """The method call `self.compute_g()` computed `self.loss_g` before the step: moves the call after the step."""
    code = order.code
    loss = _loss(order.backward)
    if loss is None:
        return None
    path, block = ast.unparse(loss), code.block(order.outer_step)
    last = block.index(order.outer_step)
    calls = [item for item in block[:last] if any(binds(node, path) for node in _run_by(files, code, item))]
    if len(calls) != 1 or not (isinstance(calls[0], ast.Expr) and whole_lines(code, calls[0])):
        return None
    moved, between = list(_run_by(files, code, calls[0])), block[block.index(calls[0]) + 1 : last + 1]
    others = [node for item in between for node in (item, *_run_by(files, code, item))]
    if _attributes(moved, ast.Store) & _attributes(others, ast.Load) or any(map(_goes_backward, moved)):
        return None
    if _attributes(others, ast.Store) & (_attributes(moved, ast.Load) | _attributes(moved, ast.Store)):
        return None
    title = f"Compute `{path}` after the step, with the new weights"
    return Reordering(title, "earlier", moved_behind(code, calls, order.outer_step))


def _loss(backward: ast.stmt) -> ast.Attribute | None:
    """`self.loss_g` of `self.loss_g.backward()`"""
    call = method_call(backward)
    return call.receiver if call is not None and isinstance(call.receiver, ast.Attribute) else None


def _run_by(files: Files, code: Code, statement: ast.stmt) -> Iterator[ast.stmt]:
    """The statements of the methods that a statement calls on its own object."""
    for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
        own = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "self"
        callee = callee_of(files, code, call) if own else None
        yield from (node for node in ast.walk(callee[1]) if isinstance(node, ast.stmt)) if callee is not None else ()


def _attributes(nodes: Iterable[ast.AST], context: type[ast.expr_context]) -> set[str]:
    """The attributes of the object that are read, or those that are bound."""
    parts = (part for node in nodes for part in ast.walk(node) if isinstance(part, ast.Attribute))
    return {part.attr for part in parts if isinstance(part.ctx, context) and ast.unparse(part.value) == "self"}


def _goes_backward(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr in ("backward", "step") for part in ast.walk(node))
