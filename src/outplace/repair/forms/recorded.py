"""`h.data.clamp_(-1, 1)` becomes `h = h.clamp(-1, 1)`, which autograd records."""

from __future__ import annotations

import ast

from outplace.knowledge.derivatives import overwrites, passed_by, rescales
from outplace.knowledge.silent_rules.lost import DATA_WRITE_USED
from outplace.knowledge.traits import has
from outplace.repair.facts.location import Place
from outplace.repair.forms import augmented, method, subscript
from outplace.repair.syntax import edits as editing
from outplace.repair.syntax.code import same, whole_of
from outplace.repair.syntax.edits import Edit


def through_data(place: Place) -> ast.Attribute | None:
    """The `h.data` of a name or an attribute, if a write through it has a derivative that backward needs."""
    node = whole_of(place.target)
    if not isinstance(node, ast.Attribute) or node.attr != "data" or ast.unparse(node.value) != place.path:
        return None
    return node if _has_a_derivative(place.node, place.statement, place.bug.rule is DATA_WRITE_USED) else None


def _has_a_derivative(write: ast.AST, statement: ast.stmt, is_number: bool) -> bool:
    """Has the write a derivative? `is_number`: the assigned value is known to be a number, whatever its name."""
    call = write.value if isinstance(write, ast.Expr) else write
    if isinstance(call, ast.Call):
        names = [node.attr for node in ast.walk(statement) if isinstance(node, ast.Attribute)]
        replaced = any(has(name, "replaces") for name in names) and not _writes_a_part(call)
        if replaced or any(passed_by(name) for name in names):
            return False  # the whole is replaced: its gradient is meant for something else
        return any(rescales(name) or overwrites(name) for name in names)
    if isinstance(call, ast.AugAssign):
        return not isinstance(call.op, ast.Add | ast.Sub)
    if not isinstance(call, ast.Assign):
        return False
    return isinstance(call.value, ast.Constant | ast.UnaryOp) or (
        is_number and isinstance(call.value, ast.Name | ast.Attribute)
    )


def adds_what_was_cut(place: Place) -> bool:
    """`state.data += (dt * rate).data`: is the added value detached on purpose, so that the state has no graph?"""
    write, added = place.statement, None
    if isinstance(write, ast.AugAssign) and isinstance(write.op, ast.Add | ast.Sub):
        added = write.value
    elif isinstance(write, ast.Expr) and isinstance(write.value, ast.Call) and write.value.args:
        added = write.value.args[0] if ast.unparse(write.value.func).endswith((".add_", ".sub_")) else None
    cuts = {node.attr for node in ast.walk(added) if isinstance(node, ast.Attribute)} if added is not None else set()
    through_data = isinstance(place.target, ast.Attribute) and place.target.attr == "data"
    return through_data and bool(cuts & {"data", "detach"}) and "grad" not in cuts


def _writes_a_part(call: ast.Call) -> bool:
    """Does it write a part: `h.data[0].zero_()`, not `h.data.zero_()`?"""
    return isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Subscript)


def new_tensor(place: Place, data: ast.Attribute) -> list[Edit] | None:
    """The edits: a new tensor under the same name, or a copy that is written."""
    code, statement = place.code, place.statement
    name, written = code.segment(data.value), code.segment(data)
    edits: list[Edit] | None = None
    if place.target is data and isinstance(statement, ast.AugAssign):
        edits = augmented.out_of_place(code, statement)
    elif place.target is data and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        edits = method.out_of_place(code, statement.value, statement)
    if edits is not None:
        start, end = code.span(statement)
        text = editing.apply(code.text, edits)
        changed = text[start : end + len(text) - len(code.text)]
        return [Edit(start, end, changed.replace(written, name))]
    several = _written_in_a_row(place, data)
    if several[0] is data:
        copied = subscript.into_a_copy(place, True) or subscript.into_a_copy(place, False)
    else:
        first = code.statement(several[0])
        before = code.before(first, f"{name} = {name}.clone()") if first is not None else None
        copied = None if before is None else [before]
    if copied is None:
        return None
    return [*copied, *(Edit(code.span(item.value)[1], code.span(item)[1], "") for item in several)]


def _written_in_a_row(place: Place, data: ast.Attribute) -> list[ast.Attribute]:
    """The `h.data` of this and the neighbouring statements that write parts of it. One copy is enough for all."""
    block = place.code.block(place.statement)
    here = block.index(place.statement) if place.statement in block else 0
    rows: list[ast.Attribute] = []
    for number, statement in enumerate(block):
        found = data if statement is place.statement else _written_part(statement, data, place)
        if found is not None:
            rows.append(found)
        elif number < here:
            rows.clear()
        else:
            break
    return rows if data in rows else [data]


def _written_part(statement: ast.stmt, data: ast.Attribute, place: Place) -> ast.Attribute | None:
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Subscript):
        return None
    node = whole_of(statement.targets[0])
    if not isinstance(node, ast.Attribute) or not same(node, data):
        return None
    return node if _has_a_derivative(statement, statement, place.bug.rule is DATA_WRITE_USED) else None
