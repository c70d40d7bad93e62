"""`x[i] = v` and `x[i] += v`: into a copy (`x = x.clone()` before it), by a mask, by a blend, or by `outplace.at`."""

from __future__ import annotations

import ast

from outplace.repair.code import Loop, same
from outplace.repair.edits import Edit
from outplace.repair.flow import binds
from outplace.repair.forms.augmented import SYMBOLS, strength
from outplace.repair.place import Place

_METHODS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow"}


def into_a_copy(place: Place, hoist: bool) -> list[Edit] | None:
    """`x = x.clone()` before the statement, or before the loops around it where the name comes from before them."""
    if place.path is None or not isinstance(place.holder, ast.Name | ast.Attribute):
        return None
    where: ast.stmt = place.statement
    if hoist:
        loops = _loops_outside(place)
        if not loops:
            return None
        where = loops[-1]
    edit = place.code.before(where, f"{place.path} = {place.path}.clone()")
    return None if edit is None else [edit]


def _loops_outside(place: Place) -> list[Loop]:
    """The loops around the statement, as far out as the name is not bound by them."""
    found: list[Loop] = []
    for loop in place.code.loops(place.statement):
        if place.path is None or any(binds(node, place.path) for node in ast.walk(loop)):
            break
        found.append(loop)
    return found


def as_expression(place: Place) -> tuple[str, list[Edit]] | None:
    """The assignment as one expression, where that is surely the same: a mask of the tensor's own shape."""
    statement = place.statement
    if place.style == "at":
        return _at(place)
    if place.style == "blend":
        return _blend(place)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or not place.code.begins_line(statement):
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Subscript) or not _plain(target.value) or not _own_mask(target.slice, target.value):
        return None
    name, mask = place.code.segment(target.value), place.code.segment(target.slice)
    if isinstance(statement.value, ast.Constant) or _is_number(statement.value):
        value = place.code.segment(statement.value)
        return "Use `masked_fill`, which makes a new tensor", [
            place.code.replaced(statement, f"{name} = {name}.masked_fill({mask}, {value})")
        ]
    return None


def _plain(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _plain(node.value))


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.operand, ast.Constant)
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "float"


def _own_mask(index: ast.expr, tensor: ast.expr) -> bool:
    """`x > 0.5` as an index of `x`: surely a mask, and surely of its shape."""
    if isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.Invert):
        return _own_mask(index.operand, tensor)
    if not isinstance(index, ast.Compare) or len(index.ops) != 1:
        return False
    sides = (index.left, index.comparators[0])
    own = [side for side in sides if ast.unparse(side) == ast.unparse(tensor)]
    other = [side for side in sides if isinstance(side, ast.Constant) or _is_number(side)]
    return len(own) == 1 and len(other) == 1


def _index(place: Place, target: ast.Subscript) -> str:
    return place.code.segment(target.slice)


def _at(place: Place) -> tuple[str, list[Edit]] | None:
    """`x = outplace.at(x)[i].set(v)`."""
    statement, code = place.statement, place.code
    target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
    if not isinstance(target, ast.Subscript) or not _plain(target.value):
        return None
    value = getattr(statement, "value", None)
    if not isinstance(value, ast.expr):
        return None
    name, index, given = code.segment(target.value), _index(place, target), code.segment(value)
    method = "set"
    if isinstance(statement, ast.AugAssign):
        operator = _METHODS.get(type(statement.op))
        if operator is not None and _no_repeats(target.slice, target.value):
            method = operator
        else:  # where an index stands twice, `x[i] += v` adds once and `at(x)[i].add(v)` twice
            symbol = SYMBOLS[type(statement.op)]
            given = f"{name}[{index}] {symbol} {given if strength(value) > 6 else f'({given})'}"
    text = f"{name} = outplace.at({name})[{index}].{method}({given})"
    return "Use `outplace.at`, which makes a new tensor", [*code.importing("outplace"), code.replaced(statement, text)]


def _no_repeats(index: ast.expr, tensor: ast.expr) -> bool:
    """Does an index surely name each place once: numbers, slices, `...`, None, a mask of the tensor's own?"""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    plain = ast.Slice | ast.Constant
    return _own_mask(index, tensor) or all(isinstance(part, plain) or _is_number(part) for part in parts)


def _blend(place: Place) -> tuple[str, list[Edit]] | None:
    """`x = x + mask * (v - x)`, the mask made from the index where the index is not one."""
    statement, code = place.statement, place.code
    target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
    value = getattr(statement, "value", None)
    if not isinstance(target, ast.Subscript) or not _plain(target.value) or not isinstance(value, ast.expr):
        return None
    if isinstance(value, ast.Subscript) and _plain(value.value) and same(value.slice, target.slice):
        value = value.value  # x[mask] = v[mask]
    elif not (isinstance(value, ast.Constant) or _is_number(value)):
        return None  # a value of another shape than x has no place in a blend
    if not code.begins_line(statement):
        return None
    name, index, number = code.segment(target.value), _index(place, target), code.segment(value)
    if isinstance(statement, ast.AugAssign):
        symbol = SYMBOLS[type(statement.op)]
        number = f"{name} {symbol} {number if strength(value) > 6 else f'({number})'}"
    title = "Blend by a mask"
    if _own_mask(target.slice, target.value):
        mask = f"({index})"
        return title, [code.replaced(statement, f"{name} = {name} + {mask} * ({number} - {name})")]
    mask = _fresh(place, "mask")
    lines = [
        f"{mask} = torch.zeros_like({name}, dtype=torch.bool)",
        f"{mask}[{index}] = True",
        f"{name} = {name} + {mask} * ({number} - {name})",
    ]
    return title, [*code.importing("torch"), code.replaced(statement, f"\n{code.indent(statement)}".join(lines))]


def _fresh(place: Place, name: str) -> str:
    taken = place.code.names(place.code.tree)
    return next(n for n in (name, *(f"{name}_{i}" for i in range(2, 99))) if n not in taken)
