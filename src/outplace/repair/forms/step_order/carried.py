"""State that is carried from round to round: detached after the step."""

from __future__ import annotations

import ast

from outplace.repair.code import Code, Loop
from outplace.repair.files import Files
from outplace.repair.flow import bindings, binds, reads
from outplace.repair.forms.step_order.lines import lines_after
from outplace.repair.forms.step_order.order import Order, Reordering, only_steps
from outplace.repair.origins import callee_of

_DETACHED = {
    "tensor": "{0}.detach()",
    "tuple": "tuple(one.detach() for one in {0})",
    "list": "[one.detach() for one in {0}]",
}


def detached_state(order: Order, loop: Loop) -> Reordering | None:
    """`h = h.detach()` behind the step."""
    code = order.code
    carried = [path for path in _held(order, loop) if _is_carried(loop, path)]
    shapes = {path: order.moment.held.get(path) or _guessed_shape(order.code, loop, path) for path in carried}
    if "" in shapes.values():
        return None
    lines = [f"{path} = {_DETACHED[shape].format(path)}" for path, shape in shapes.items()]
    edit = lines_after(code, order.step, lines)
    if not lines or edit is None:
        return None
    named = ", ".join(f"`{path}`" for path in carried)
    return Reordering(f"Detach {named} after the step: each round trains on its own part", "beginning", [edit])


def detached_inside(order: Order, loop: Loop, files: Files) -> Reordering | None:
    """One call does both, the step and the next round's backward: what the object keeps is detached where it steps."""
    calls = [node for node in ast.walk(order.step) if isinstance(node, ast.Call)]
    callee = callee_of(files, order.code, calls[0]) if order.step is order.backward and calls else None
    receiver = calls[0].func.value if calls and isinstance(calls[0].func, ast.Attribute) else None
    if callee is None or not callee[2] or receiver is None:
        return None
    home, function, _ = callee
    prefix, own = f"{ast.unparse(receiver)}.", function.args.args[0].arg
    carried = {path: shape for path, shape in order.moment.held.items() if _is_carried(loop, path)}
    steps = [node for node in ast.walk(function) if isinstance(node, ast.Expr) and only_steps(node)]
    if not carried or not all(path.startswith(prefix) for path in carried) or len(steps) != 1:
        return None
    names = {f"{own}.{path.removeprefix(prefix)}": shape for path, shape in carried.items()}
    edit = lines_after(home, steps[0], [f"{name} = {_DETACHED[shape].format(name)}" for name, shape in names.items()])
    if edit is None:
        return None
    title = f"Detach {', '.join(f'`{name}`' for name in names)} after the step: each round trains on its own part"
    return Reordering(title, "beginning", [edit], home.path)


def _held(order: Order, loop: Loop) -> list[str]:
    """What may hold a graph: known from a run, else every name that the loop both reads and binds."""
    if order.moment.held:
        return list(order.moment.held)
    names = {node.id for node in ast.walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return sorted(name for name in names if _from_calls(loop, name))


def _guessed_shape(code: Code, loop: Loop, name: str) -> str:
    """By what it is before the loop: a tuple of states, a tensor; None says nothing."""
    values = [getattr(one, "value", None) for one in bindings(code, loop, name)]
    if any(value is None or isinstance(value, ast.Constant) for value in values):
        return ""
    return "tuple" if all(isinstance(value, ast.Tuple) for value in values) else "tensor"


def _from_calls(loop: Loop, name: str) -> bool:
    values = [node.value for node in ast.walk(loop) if isinstance(node, ast.Assign) and binds(node, name)]
    return bool(values) and all(isinstance(value, ast.Call) and reads(value, name) for value in values)


def _is_carried(loop: Loop, path: str) -> bool:
    """Does a round read what the round before has left? An attribute is kept by its object in any case."""
    if "." in path:
        return True
    if not isinstance(loop, ast.While) and binds(loop, path):
        return False
    for statement in loop.body:
        met = _first_use(statement, path)
        if met is not None:
            return met == "read" and any(binds(node, path) for one in loop.body for node in ast.walk(one))
    return False


def _first_use(statement: ast.stmt, path: str) -> str | None:
    if isinstance(statement, ast.Assign | ast.AnnAssign) and binds(statement, path):
        return "read" if statement.value is not None and reads(statement.value, path) else "bound"
    if reads(statement, path):
        return "read"
    return "bound" if any(binds(node, path) for node in ast.walk(statement)) else None
