"""A loss that an object keeps, computed too early by a method: the line, or the call, goes behind the step."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from outplace.repair.facts.origins import callee_of
from outplace.repair.forms.step_order.lines import names_bound_within, pasted, whole_lines
from outplace.repair.forms.step_order.order import Order, Reordering
from outplace.repair.syntax.code import Code, Function
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import binds, reads


def kept_loss(order: Order) -> Reordering | None:
    """`self.loss_g` that a method has computed before the step: that line goes behind it."""
    code, function, owner = order.code, order.code.function(order.backward), order.code.class_of(order.backward)
    call = order.backward.value if isinstance(order.backward, ast.Expr) else None
    loss = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    if not isinstance(loss, ast.Attribute) or not isinstance(function, Function) or owner is None:
        return None
    path = ast.unparse(loss)
    made = [node for node in ast.walk(owner) if isinstance(node, ast.Assign) and binds(node, path)]
    home = code.function(made[0]) if len(made) == 1 else None
    if not isinstance(home, Function) or len(code.block(made[0])) < 2 or not whole_lines(code, made[0]):
        return None
    block = code.block(order.outer_step)
    before = block[: block.index(order.outer_step) + 1]
    needed = {ast.unparse(part) for part in ast.walk(made[0].value) if isinstance(part, ast.Name | ast.Attribute)}
    elsewhere = [one for one in [*home.body, *before] if one is not made[0]]
    if any(reads(one, path) for one in elsewhere) or any(binds(one, name) for one in before for name in needed):
        return None
    own = {arg.arg for arg in home.args.args[1:]} | {name for one in home.body for name in names_bound_within(one)}
    if home is not function and own & needed:
        return None  # made from what only that method has
    first, last = made[0].lineno, made[0].end_lineno or made[0].lineno
    deep = len(code.indent(made[0]))
    lines = [code.indent(order.outer_step) + line[deep:] for line in code.lines[first - 1 : last]]
    cut = Edit(code.offset(first, 0), code.offset(last + 1, 0), "")
    title = f"Compute `{path}` after the step, with the new weights"
    return Reordering(title, "earlier", [cut, pasted(code, order.outer_step, lines)])


def called_later(order: Order, files: Files) -> Reordering | None:
    """`self.compute_g()`, a method that has computed `self.loss_g` before the step: the call goes behind it."""
    code = order.code
    call = order.backward.value if isinstance(order.backward, ast.Expr) else None
    loss = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    if not isinstance(loss, ast.Attribute):
        return None
    path, block = ast.unparse(loss), code.block(order.outer_step)
    last = block.index(order.outer_step)
    calls = [one for one in block[:last] if any(binds(node, path) for node in _run_by(files, code, one))]
    if len(calls) != 1 or not (isinstance(calls[0], ast.Expr) and whole_lines(code, calls[0])):
        return None
    moved, between = list(_run_by(files, code, calls[0])), block[block.index(calls[0]) + 1 : last + 1]
    others = [node for one in between for node in (one, *_run_by(files, code, one))]
    if _attributes(moved, ast.Store) & _attributes(others, ast.Load) or any(map(_goes_backward, moved)):
        return None
    if _attributes(others, ast.Store) & (_attributes(moved, ast.Load) | _attributes(moved, ast.Store)):
        return None
    cut = Edit(code.offset(calls[0].lineno, 0), code.offset((calls[0].end_lineno or 0) + 1, 0), "")
    lines = code.lines[calls[0].lineno - 1 : calls[0].end_lineno]
    title = f"Compute `{path}` after the step, with the new weights"
    return Reordering(title, "earlier", [cut, pasted(code, order.outer_step, lines)])


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
