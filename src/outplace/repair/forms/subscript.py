"""`x[i] = v` and `x[i] += v`: into a copy (`x = x.clone()` before it), by a mask, by a blend, or by `outplace.at`."""

from __future__ import annotations

import ast
from collections.abc import Callable

from outplace.knowledge.traits import always_kind, has, makes_integers, makes_tensor, method_has
from outplace.repair.facts.location import Place
from outplace.repair.forms.augmented import SYMBOLS, strength
from outplace.repair.syntax.code import Code, Loop, is_library, same
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.flow import bindings, binds

_METHODS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow"}


def into_a_copy(place: Place, hoist: bool) -> list[Edit] | None:
    """`x = x.clone()` before the statement, or before the loops around it if the name is bound before them."""
    if place.path is None or not isinstance(place.holder, ast.Name | ast.Attribute):
        return None
    where: ast.stmt = place.statement
    if hoist:
        loops = _loops_outside(place)
        if not loops:
            return None
        where = loops[-1]
    copy = f"{place.path} = {place.path}.clone()"
    if where is place.statement and not place.code.begins_line(where):  # `if c: x[0] = v`
        start = place.code.span(where)[0]
        return [Edit(start, start, f"{copy}; ")]
    edit = place.code.before(where, copy)
    return None if edit is None else [edit]


def copied_at_start(place: Place) -> tuple[ast.stmt, list[Edit]] | None:
    """`x = x.clone()` before the first statement of the function that is given `x`; that statement."""
    function, name = place.code.function(place.statement), place.path
    if not isinstance(function, ast.FunctionDef):
        return None
    given = [item.arg for item in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    first = next((item for item in function.body if not _is_docstring(item)), place.statement)
    if name not in given or first is place.statement:
        return None
    edit = place.code.before(first, f"{name} = {name}.clone()")
    return None if edit is None else (first, [edit])


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _loops_outside(place: Place) -> list[Loop]:
    """The loops around the statement, out to the first one that binds the name."""
    found: list[Loop] = []
    for loop in place.code.loops(place.statement):
        if place.path is None or any(binds(node, place.path) for node in ast.walk(loop)):
            break
        found.append(loop)
    return found


def as_expression(place: Place) -> tuple[str, list[Edit]] | None:
    """The assignment as one expression, if that is certainly equal and easier to read than writing a copy.

    This holds for masks of the tensor's own shape and for index tensors. `slice_scatter` and `select_scatter` would
    also be exact, but they do not broadcast, and they number dimensions and positions. `x = x.clone()` before `x[:, 0]
    = v` is clearer.
    """
    if place.style == "at":
        return _at(place)
    if place.style == "blend":
        return _blend(place)
    statement = place.statement
    if isinstance(statement, ast.Assign) and len(statement.targets) != 1:
        return None
    target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
    value = getattr(statement, "value", None)
    if not isinstance(target, ast.Subscript) or not _plain(target.value) or not isinstance(value, ast.expr):
        return None
    if _own_mask(target.slice, target.value, place):
        return _by_mask(place, target, value)
    if (
        isinstance(statement, ast.Assign)
        and _is_made(place, target.slice, makes_integers)
        and _is_made(place, value, makes_tensor)
    ):
        name, index, value_text = (place.code.segment(part) for part in (target.value, target.slice, value))
        text = f"{name} = {name}.index_put(({index},), {value_text})"
        return "Use `index_put`, which makes a new tensor", [place.code.replaced(statement, text)]
    return None


def _by_mask(place: Place, target: ast.Subscript, value: ast.expr) -> tuple[str, list[Edit]] | None:
    """`masked_fill` for a number, `torch.where` for a value with one element for each element of the tensor."""
    statement, code = place.statement, place.code
    name, mask = code.segment(target.value), code.segment(target.slice)
    if isinstance(statement, ast.Assign) and _is_number(value):
        text = f"{name} = {name}.masked_fill({mask}, {code.segment(value)})"
        return "Use `masked_fill`, which makes a new tensor", [code.replaced(statement, text)]
    unmasked = _unmasked(code, value, target.slice)
    if unmasked is None:
        return None
    if isinstance(statement, ast.AugAssign):
        symbol = SYMBOLS[type(statement.op)]
        if symbol not in ("+", "-") and not (symbol in ("*", "/") and _is_number(value)):
            return None
        unmasked = f"{name} {symbol} {unmasked if strength(value) > 6 else f'({unmasked})'}"
    elif _is_number(value):
        return None
    torch = code.module_name("torch") or "torch"
    text = f"{name} = {torch}.where({mask}, {unmasked}, {name})"
    return "Choose with `torch.where`", [*code.importing("torch"), code.replaced(statement, text)]


def _unmasked(code: Code, value: ast.expr, mask: ast.expr) -> str | None:
    """`v * 2 + x` of `v[mask] * 2 + x[mask]`: sums and multiples of tensors under the same mask.

    Nothing else: `torch.where` computes both sides everywhere. The square root of a masked-out element may be nan, and
    its gradient is nan although the element was not chosen.
    """
    if _is_number(value):
        return code.segment(value)
    if isinstance(value, ast.Subscript):
        return code.segment(value.value) if _plain(value.value) and same(value.slice, mask) else None
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        inner = _unmasked(code, value.operand, mask)
        return None if inner is None else f"-{_enclosed(code, value.operand, inner)}"
    if not isinstance(value, ast.BinOp):
        return None
    left, right = _unmasked(code, value.left, mask), _unmasked(code, value.right, mask)
    multiple = _is_number(value.right) or (_is_number(value.left) and isinstance(value.op, ast.Mult))
    if left is None or right is None or "\n" in code.segment(value):
        return None
    if not (isinstance(value.op, ast.Add | ast.Sub) or (isinstance(value.op, ast.Mult | ast.Div) and multiple)):
        return None
    return f"{_enclosed(code, value.left, left)} {SYMBOLS[type(value.op)]} {_enclosed(code, value.right, right)}"


def _enclosed(code: Code, node: ast.expr, text: str) -> str:
    """The text with the parentheses that the node has."""
    start, end = code.span(node)
    inside = isinstance(node, ast.BinOp) and code.text[start - 1] == "(" and code.text[end : end + 1] == ")"
    return f"({text})" if inside else text


def _is_made(place: Place, node: ast.expr, makes: Callable[[str], bool], named: bool = True) -> bool:
    """Is it the result of such a function of torch or method of tensors, or a name that is bound to such results?"""
    if isinstance(node, ast.BinOp):
        return any(_is_made(place, side, makes, named) for side in (node.left, node.right))
    if isinstance(node, ast.Name) and named:
        assigned = list(bindings(place.code, place.statement, node.id))
        single = [
            new_value
            for new_value in assigned
            if isinstance(new_value, ast.Assign) and [ast.unparse(target) for target in new_value.targets] == [node.id]
        ]
        return (
            bool(assigned) and assigned == single and all(_is_made(place, item.value, makes, False) for item in single)
        )
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    name = node.func.attr
    if is_library(node.func.value):
        return ast.unparse(node.func.value) == "torch" and makes(name)
    return method_has(name, "only_of_tensors") and makes(name)


def _plain(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _plain(node.value))


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _is_number(node.operand)
    text = ast.unparse(node)
    return text in _NUMBERS or text.startswith(("float(", "torch.finfo("))


_NUMBERS = ("torch.inf", "math.inf", "np.inf", "torch.nan", "math.nan", "np.nan", "torch.pi", "math.pi", "np.pi")


def _own_mask(index: ast.expr, tensor: ast.expr, place: Place) -> bool:
    """`x > 0.5` as an index of `x`: certainly a mask of its shape, whatever it is compared with; also under a name."""
    if isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.Invert):
        return _own_mask(index.operand, tensor, place)
    if isinstance(index, ast.BinOp) and isinstance(index.op, ast.BitAnd | ast.BitOr | ast.BitXor):
        return _own_mask(index.left, tensor, place) and _own_mask(index.right, tensor, place)
    if isinstance(index, ast.Compare) and len(index.ops) == 1:
        orders = ast.Lt | ast.LtE | ast.Gt | ast.GtE | ast.Eq | ast.NotEq
        sides = (index.left, index.comparators[0])
        return isinstance(index.ops[0], orders) and any(_of_shape(side, tensor) for side in sides)
    if isinstance(index, ast.Call) and isinstance(index.func, ast.Attribute) and always_kind(index.func.attr) == "bool":
        return _of_shape(index.func.value, tensor) or (len(index.args) == 1 and _of_shape(index.args[0], tensor))
    return isinstance(index, ast.Name) and _is_name_of_own_mask(index.id, tensor, place)


def _is_name_of_own_mask(name: str, tensor: ast.expr, place: Place) -> bool:
    """Is the name bound once, to a mask of the tensor, and is the tensor not rebound since?"""
    found = list(bindings(place.code, place.statement, name))
    assignment = found[0] if len(found) == 1 else None
    if (
        not isinstance(assignment, ast.Assign)
        or len(assignment.targets) != 1
        or not isinstance(assignment.targets[0], ast.Name)
    ):
        return False
    path = ast.unparse(tensor)
    then, now = (set(bindings(place.code, at, path)) for at in (assignment, place.statement))
    if isinstance(assignment.value, ast.Name) or then != now or place.code.loops(place.statement):
        return False
    return _own_mask(assignment.value, tensor, place)


def _of_shape(node: ast.expr, tensor: ast.expr) -> bool:
    """Is it the tensor itself, or an elementwise function of it?"""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and has(node.func.attr, "keeps_shape"):
        subject = node.args[0] if ast.unparse(node.func.value) == "torch" and node.args else node.func.value
        return _of_shape(subject, tensor)
    return same(node, tensor)


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
    name, index, value_text = code.segment(target.value), _index(place, target), code.segment(value)
    method = "set"
    if isinstance(statement, ast.AugAssign):
        operator = _METHODS.get(type(statement.op))
        if operator is not None and _no_repeats(target.slice, target.value, place):
            method = operator
        else:  # with a repeated index `x[i] += v` adds once and `at(x)[i].add(v)` twice
            symbol = SYMBOLS[type(statement.op)]
            value_text = f"{name}[{index}] {symbol} {value_text if strength(value) > 6 else f'({value_text})'}"
    text = f"{name} = outplace.at({name})[{index}].{method}({value_text})"
    return "Use `outplace.at`, which makes a new tensor", [*code.importing("outplace"), code.replaced(statement, text)]


def _no_repeats(index: ast.expr, tensor: ast.expr, place: Place) -> bool:
    """Does an index certainly name each position once: numbers, slices, `...`, None, a mask of the tensor's own?"""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    plain = ast.Slice | ast.Constant
    return _own_mask(index, tensor, place) or all(isinstance(part, plain) or _is_number(part) for part in parts)


def _blend(place: Place) -> tuple[str, list[Edit]] | None:
    """`x = x + mask * (v - x)`. The mask is made from the index, if the index is not a mask."""
    statement, code = place.statement, place.code
    target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
    value = getattr(statement, "value", None)
    if not isinstance(target, ast.Subscript) or not _plain(target.value) or not isinstance(value, ast.expr):
        return None
    if isinstance(value, ast.Subscript) and _plain(value.value) and same(value.slice, target.slice):
        value = value.value  # x[mask] = v[mask]
    elif not (isinstance(value, ast.Constant) or _is_number(value)):
        return None  # a blend needs a value of the shape of x
    if not code.begins_line(statement):
        return None
    name, index, number = code.segment(target.value), _index(place, target), code.segment(value)
    if isinstance(statement, ast.AugAssign):
        symbol = SYMBOLS[type(statement.op)]
        number = f"{name} {symbol} {number if strength(value) > 6 else f'({number})'}"
    title = "Blend by a mask"
    if _own_mask(target.slice, target.value, place):
        mask = f"({index})"
        return title, [code.replaced(statement, f"{name} = {name} + {mask} * ({number} - {name})")]
    mask = code.fresh_name(statement, "mask", "mask_2", "mask_3")
    lines = [
        f"{mask} = torch.zeros_like({name}, dtype=torch.bool)",
        f"{mask}[{index}] = True",
        f"{name} = {name} + {mask} * ({number} - {name})",
    ]
    return title, [*code.importing("torch"), code.replaced(statement, f"\n{code.indent(statement)}".join(lines))]
