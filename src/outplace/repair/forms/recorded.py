"""`h.data.clamp_(-1, 1)` becomes `h = h.clamp(-1, 1)`: a result of the graph is changed where autograd sees it."""

from __future__ import annotations

import ast

from outplace.knowledge.derivatives import overwrites, passed_by, rescales
from outplace.repair import edits as editing
from outplace.repair.edits import Edit
from outplace.repair.forms import augmented, method, subscript
from outplace.repair.place import Place


def through_data(place: Place) -> ast.Attribute | None:
    """`h.data` of a name or an attribute, through which a write goes whose derivative backward would need."""
    node = place.target
    while isinstance(node, ast.Subscript):
        node = node.value
    if not isinstance(node, ast.Attribute) or node.attr != "data" or ast.unparse(node.value) != place.path:
        return None
    return node if _has_a_derivative(place.node, place.statement) else None


def _has_a_derivative(write: ast.AST, statement: ast.stmt) -> bool:
    call = write.value if isinstance(write, ast.Expr) else write
    if isinstance(call, ast.Call):
        names = [one.attr for one in ast.walk(statement) if isinstance(one, ast.Attribute)]
        if any(passed_by(one) for one in names) or ({"fill_", "zero_"} & set(names) and not _writes_a_part(call)):
            return False  # all of it is replaced: its gradient is meant for something else
        return any(rescales(one) or overwrites(one) for one in names)
    if isinstance(call, ast.AugAssign):
        return not isinstance(call.op, ast.Add | ast.Sub)
    return isinstance(call, ast.Assign) and isinstance(call.value, ast.Constant | ast.UnaryOp)


def adds_what_was_cut(place: Place) -> bool:
    """`state.data += (dt * rate).data`: a state goes on, by something that was cut off so that it may."""
    write, added = place.statement, None
    if isinstance(write, ast.AugAssign) and isinstance(write.op, ast.Add | ast.Sub):
        added = write.value
    elif isinstance(write, ast.Expr) and isinstance(write.value, ast.Call) and write.value.args:
        added = write.value.args[0] if ast.unparse(write.value.func).endswith((".add_", ".sub_")) else None
    cuts = {node.attr for node in ast.walk(added) if isinstance(node, ast.Attribute)} if added is not None else set()
    through_data = isinstance(place.target, ast.Attribute) and place.target.attr == "data"
    return through_data and bool(cuts & {"data", "detach"}) and "grad" not in cuts


def _writes_a_part(call: ast.Call) -> bool:
    """`h.data[0].zero_()`, not `h.data.zero_()`."""
    return isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Subscript)


def new_tensor(place: Place, data: ast.Attribute) -> list[Edit] | None:
    """The edits: a new tensor under the same name, or a copy that is written."""
    code, statement = place.code, place.statement
    name, written = code.segment(data.value), code.segment(data)
    made: list[Edit] | None = None
    if place.target is data and isinstance(statement, ast.AugAssign):
        made = augmented.out_of_place(code, statement)
    elif place.target is data and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        made = method.out_of_place(code, statement.value, statement)
    if made is not None:
        start, end = code.span(statement)
        text = editing.apply(code.text, made)
        changed = text[start : end + len(text) - len(code.text)]
        return [Edit(start, end, changed.replace(written, name))]
    copied = subscript.into_a_copy(place, True) or subscript.into_a_copy(place, False)
    if copied is None:
        return None
    return [*copied, Edit(code.span(data.value)[1], code.span(data)[1], "")]
