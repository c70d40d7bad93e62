"""Values that the function with the step and the backward has no name for: attributes that its methods read, and what
the function that steps hands out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from outplace.repair.facts.aliases import calls_of
from outplace.repair.facts.origins import callee_of
from outplace.repair.forms.step_order.anew import listed, trains_again
from outplace.repair.forms.step_order.forward import remade
from outplace.repair.forms.step_order.lines import lines_before
from outplace.repair.forms.step_order.order import Order, Reordering, statement_at
from outplace.repair.syntax.code import Code, Function
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.files import Files


def detached_in_methods(order: Order, files: Files, unused: bool = False) -> Reordering | None:
    """`self.fake`, which only trains what has just been stepped: detached where the next loss is made from it."""
    code, block = order.code, order.code.block(order.outer_step)
    after = block[block.index(order.outer_step) + 1 : block.index(order.outer_backward) + 1]
    paths = [path for path in order.moment.stale if "." in path]
    found = [(path, node) for path in paths for one in after for node in _reads(files, code, one, path)]
    used = list(dict.fromkeys(path for path, _ in found))
    if not used or trains_again(order) or any(path not in order.moment.for_the_step for path in used):
        return None
    title = f"Detach {listed(used)}: this loss is not to train what has just been stepped"
    ends = [code.span(node)[1] for _, node in found]
    return Reordering(title, "earlier", [Edit(end, end, ".detach()") for end in dict.fromkeys(ends)], plain=unused)


def _reads(files: Files, code: Code, statement: ast.stmt, path: str) -> Iterator[ast.Attribute]:
    """Where a statement reads an attribute, or a method of the object that nobody else calls."""
    yield from _loads(statement, path)
    for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
        receiver = f"{ast.unparse(call.func.value)}." if isinstance(call.func, ast.Attribute) else ""
        callee = callee_of(files, code, call) if receiver and path.startswith(receiver) else None
        if callee is None or callee[0] is not code or not callee[2] or not callee[1].args.args:
            continue
        if len(calls_of(files, code, callee[1]) or ()) == 1:
            yield from _loads(callee[1], f"{callee[1].args.args[0].arg}.{path.removeprefix(receiver)}")


def _loads(node: ast.AST, path: str) -> Iterator[ast.Attribute]:
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load) and ast.unparse(part) == path:
            yield part


def returned_anew(order: Order, files: Files) -> Reordering | None:
    """`return loss, score` after the step: the score is made anew before it is handed out for the next loss."""
    file, line = order.moment.stepped_at or ("", 0)
    code = files.code(file) if file else None
    step = statement_at(code, line, "step") if code is not None else None
    function = code.function(step) if code is not None and step is not None else None
    call = order.step.value if isinstance(order.step, ast.Assign) else None
    if code is None or not isinstance(function, Function) or not isinstance(call, ast.Call):
        return None
    returns = [node for node in ast.walk(function) if isinstance(node, ast.Return)]
    called = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    if called != function.name or len(returns) != 1 or returns[0].lineno < line or returns[0].value is None:
        return None
    targets, values = (_items(one) for one in (order.step.targets[0], returns[0].value))  # type: ignore[attr-defined]
    if len(targets) != len(values):
        return None
    handed = [value for target, value in zip(targets, values, strict=True) if ast.unparse(target) in order.stale]
    names = [value.id for value in handed if isinstance(value, ast.Name)]
    made = remade(code, returns[0], names, ()) if names and len(names) == len(handed) else None
    edit = lines_before(code, returns[0], made.lines) if made is not None else None
    if edit is None:
        return None
    return Reordering(f"Make {listed(names)} anew after the step, with the new weights", "earlier", [edit], code.path)


def _items(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]
