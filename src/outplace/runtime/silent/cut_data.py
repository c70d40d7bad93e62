"""Data that a step takes from elsewhere under a name of its own, and cuts holes into: facts from the source.

`x = images[i:i + 4]`, `x[:, a:a + 2] = 0` with `a` drawn at random: each round cuts another hole into the data.
`valid = target != 255`, `target[~valid] = 0`: the next round finds nothing to ignore.
"""

from __future__ import annotations

import ast
from types import FrameType

import torch

from outplace.knowledge.traits import draws
from outplace.repair.syntax.code import Code, root_of
from outplace.repair.syntax.flow import bindings, names_in, used_later
from outplace.runtime.locate import names, sites
from outplace.runtime.record.log import Instruction, Write
from outplace.runtime.silent.kept_at import shares
from outplace.runtime.silent.operands import is_number

_HOPS = 4
_CHANCE = frozenset(
    ("random", "randint", "randrange", "sample", "choice", "choices", "shuffle", "permutation", "uniform")
)
_SHOWN = frozenset(("print", "info", "debug", "warning", "write", "log", "any", "all", "item"))
_CALL = torch.nn.Module._call_impl.__code__


def fills(write: Write) -> bool:
    """Does the source put one number into a part of the tensor? Asked once for each line."""
    if write.operation not in ("__setitem__", "masked_fill_", "index_fill_"):
        return False
    known = _filling.get(write.frames[-1])
    if known is None:
        node = sites.at_instruction(write.frames[-1], write.operation).node
        value = node.value if isinstance(node, ast.Assign) else None
        if isinstance(node, ast.Call) and node.args:
            value = node.args[-1]
        known = _filling[write.frames[-1]] = value is not None and is_number(value)
    return known


_filling: dict[Instruction, bool] = {}


def _place(write: Write) -> tuple[Code, ast.stmt, ast.Name, ast.expr] | None:
    """The file, the statement, the written name, and the index or mask that says where."""
    located = sites.at_instruction(write.frames[-1], write.operation)
    target = sites.target_node(located, write.operation)
    code, node = sites.code_of(located.filename), located.node
    found = code.at(located.site) if code is not None else None
    statement = code.statement(found) if code is not None and found is not None else None
    if code is None or statement is None or not isinstance(target, ast.Name):
        return None
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        return code, statement, target, node.targets[0].slice
    return (code, statement, target, node.args[-2]) if isinstance(node, ast.Call) and len(node.args) > 1 else None


def cuts_by_chance(write: Write, frame: FrameType) -> bool:
    """Does it put a number where chance says, into data that the round has taken from elsewhere and goes on to use?"""
    place = _place(write) if fills(write) else None
    if place is None:
        return False
    code, statement, target, index = place
    return (
        _is_drawn(code, index, statement, _HOPS)
        and used_later(code, statement, target.id)
        and _is_taken(code, statement, target.id, names.own_frames(None, frame), _HOPS)
    )


def loses_its_mask(write: Write, frame: FrameType) -> bool:
    """Does it overwrite what a mask was computed from, where the function uses the mask for something else as well?"""
    place = _place(write) if fills(write) else None
    if place is None:
        return False
    code, statement, target, index = place
    masks = names_in(index) - {target.id}
    made = [value for mask in masks for value in _assigned(code, statement, mask)]
    scope = code.scope(statement)
    tests = {node.targets[0].id for node in ast.walk(scope) if _tests(node, target.id)}  # type: ignore[attr-defined]
    of_it = any(target.id in names_in(value) for value in (index, *made))
    return of_it and any(_is_computed_with(code, scope, statement, mask) for mask in masks | tests)


def _tests(node: ast.AST, name: str) -> bool:
    """`valid = target != 255`"""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
        return False
    compares = any(isinstance(part, ast.Compare) or _is_comparison(part) for part in ast.walk(node.value))
    return compares and name in names_in(node.value)


def _is_comparison(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _COMPARING


_COMPARING = frozenset(("eq", "ne", "lt", "gt", "le", "ge", "isnan", "isinf", "isfinite", "logical_not"))


def _is_computed_with(code: Code, scope: ast.AST, statement: ast.stmt, mask: str) -> bool:
    """Is the mask part of another value: `losses * valid`? Tests and messages do not count."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign | ast.Return) and node is not statement and node.value is not None:
            if isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name):
                continue
            inside = [part for part in ast.walk(node.value) if isinstance(part, ast.Name) and part.id == mask]
            if any(not _is_shown(code, part) for part in inside):
                return True
    return False


def _is_shown(code: Code, node: ast.AST) -> bool:
    for above in code.above(node):
        if isinstance(above, ast.Call):
            called = above.func.attr if isinstance(above.func, ast.Attribute) else getattr(above.func, "id", "")
            if called in _SHOWN:
                return True
        if isinstance(above, ast.stmt):
            return False
    return False


def _assigned(code: Code, statement: ast.stmt, name: str) -> list[ast.expr]:
    """What the function assigns to this name."""
    found: list[ast.expr] = []
    for node in ast.walk(code.scope(statement)):
        if isinstance(node, ast.Assign) and any(name in _bound(target) for target in node.targets):
            found.append(node.value)
    return found


def _bound(target: ast.expr) -> set[str]:
    items = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    return {item.id for item in items if isinstance(item, ast.Name)}


def _is_drawn(code: Code, node: ast.expr, statement: ast.stmt, hops: int) -> bool:
    """Does chance say where: `torch.rand(n) < 0.2`, `random.randint(0, n)`?"""
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            called = part.func.attr if isinstance(part.func, ast.Attribute) else getattr(part.func, "id", "")
            if called in _CHANCE or draws(called):
                return True
        values = _assigned(code, statement, part.id) if isinstance(part, ast.Name) and hops else []
        if any(_is_drawn(code, value, statement, hops - 1) for value in values):
            return True
    return False


def _is_taken(code: Code, statement: ast.stmt, name: str, frames: list[FrameType], hops: int) -> bool:
    """Does the round itself give this name to a part of something that stays: an item, a part, the loop's batch?

    An attribute of an object is its state, unless the object is a module in its forward.
    """
    loops = code.loops(statement)
    for binding in bindings(code, statement, name):
        if isinstance(binding, ast.For):
            return True
        if binding is None:
            return hops > 0 and _is_handed_in(frames, hops)
        value = _value_of(binding, name)
        if value is None:
            continue
        if loops and loops[-1] not in code.above(binding) and not _in_forward(frames):
            return False
        if _is_item(value):
            return True
        if isinstance(value, ast.Attribute):
            return _in_forward(frames)
        root = root_of(value) if shares(value) else None
        if isinstance(root, ast.Name) and root.id != name and hops:
            return _is_taken(code, binding, root.id, frames, hops - 1)  # type: ignore[arg-type]
        return isinstance(root, ast.Attribute) and _in_forward(frames)
    return False


def _value_of(binding: ast.AST | None, name: str) -> ast.expr | None:
    """What an assignment gives to this name: `labels[i]` for y of `x, y = images[i], labels[i]`."""
    if not isinstance(binding, ast.Assign | ast.AnnAssign) or binding.value is None:
        return None
    target = binding.targets[0] if isinstance(binding, ast.Assign) else binding.target
    if isinstance(target, ast.Tuple) and isinstance(binding.value, ast.Tuple):
        pairs = zip(target.elts, binding.value.elts, strict=False)
        return next((value for item, value in pairs if isinstance(item, ast.Name) and item.id == name), None)
    return binding.value


def _is_item(node: ast.expr) -> bool:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):  # `x[i:j].view(-1)`
        node = node.func.value
    return isinstance(node, ast.Subscript)


def _is_handed_in(frames: list[FrameType], hops: int) -> bool:
    """The function got it. What did its caller hand in?"""
    standing = sites.statement_of(frames[1]) if len(frames) > 1 else None
    if standing is None:
        return False
    code, statement = standing
    for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
        for argument in call.args:
            if _is_item(argument):
                return True
            if isinstance(argument, ast.Name) and _is_taken(code, statement, argument.id, frames[1:], hops - 1):
                return True
    return False


def _in_forward(frames: list[FrameType]) -> bool:
    """Does the innermost frame run inside the forward of a module?"""
    frame: FrameType | None = frames[0] if frames else None
    while frame is not None and frame.f_code is not _CALL:
        frame = frame.f_back
    return frame is not None
