"""Operators, comparisons and truth of values that are no tensors, and what classes inherit from."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from outplace.source import torch_model
from outplace.source.contents import hashable
from outplace.source.joins import any_item, join
from outplace.source.values import (
    PLAIN,
    UNKNOWN,
    Choice,
    Const,
    Dictionary,
    Items,
    Outside,
    Plain,
    Tensor,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


_BUILTINS = {name: Outside(f"builtins.{name}") for name in dir(__import__("builtins"))}

_OPERATORS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip

_COMPARISONS: dict[type[ast.cmpop], Any] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip


LARGEST_NUMBER, LONGEST_TEXT = 1 << 62, 1_000
"""Computed constants beyond these are not kept: a program can double a text in every line."""


def computed(value: Any) -> Value:
    """A constant that the program computes."""
    too_large = isinstance(value, int) and abs(value) > LARGEST_NUMBER
    too_long = isinstance(value, str) and len(value) > LONGEST_TEXT
    return PLAIN if too_large or too_long else Const(value)


def builtin(name: str) -> Value:
    """A name that no scope binds."""
    return _BUILTINS.get(name, UNKNOWN)


def binary(op: ast.operator, left: Value, right: Value) -> Value:
    """An operation without tensors."""
    if isinstance(left, Const) and isinstance(right, Const):
        return _constant_binary(op, left.value, right.value)
    if isinstance(left, Items) and isinstance(right, Items) and isinstance(op, ast.Add):
        rests = [side.rest for side in (left, right) if side.rest is not None]
        return Items([*left.items, *right.items], left.kind, join(rests) if rests else None)
    if isinstance(op, ast.Mult) and (isinstance(left, Items) or isinstance(right, Items)):
        return _repeated(left, right) if isinstance(left, Items) else _repeated(right, left)
    if isinstance(left, (Plain, Const, Items)) and isinstance(right, (Plain, Const, Items)):
        return PLAIN
    return UNKNOWN


def _repeated(items: Value, times: Value) -> Items:
    """`items * times`."""
    assert isinstance(items, Items)
    count = times.value if isinstance(times, Const) and isinstance(times.value, int) else 2
    copies = items.items * max(0, min(count, 4))
    if count > 1 and len(items.items) == 1 and isinstance(items.items[0], Tensor):
        items.items[0].fills_list = True
    return Items(copies, items.kind, items.rest or (any_item(items) if len(copies) > 0 else None))


def _constant_binary(op: ast.operator, left: Any, right: Any) -> Value:
    run = _OPERATORS.get(type(op))
    numbers = isinstance(left, (int, float, complex)) and isinstance(right, (int, float, complex))
    texts = isinstance(op, ast.Add) and isinstance(left, str) and isinstance(right, str)
    if run is None or not (numbers or texts):
        return PLAIN
    try:
        return computed(run(left, right))
    except (ArithmeticError, TypeError, ValueError):
        return PLAIN


def unary(op: ast.unaryop, value: Value) -> Value:
    """`-x`, `~x`, `+x` without tensors."""
    if isinstance(value, Const) and isinstance(value.value, (int, float)):
        return Const(-value.value) if isinstance(op, ast.USub) else value if isinstance(op, ast.UAdd) else PLAIN
    return PLAIN if isinstance(value, (Plain, Const)) else UNKNOWN


def compare(interpreter: Interpreter, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
    """`left op right`."""
    if isinstance(op, (ast.Is, ast.IsNot)):
        return _identity(op, left, right)
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        if isinstance(op, (ast.In, ast.NotIn)):
            return PLAIN
        return torch_model.fresh(interpreter, requires_grad=False, dtype="bool")
    if isinstance(op, (ast.In, ast.NotIn)):
        return _contains(op, left, right)
    if isinstance(left, Const) and isinstance(right, Const) and type(op) in _COMPARISONS:
        try:
            return Const(bool(_COMPARISONS[type(op)](left.value, right.value)))
        except TypeError:
            return PLAIN
    return PLAIN if isinstance(left, (Plain, Const)) and isinstance(right, (Plain, Const)) else UNKNOWN


def _identity(op: ast.cmpop, left: Value, right: Value) -> Value:
    same: bool | None = None
    for one, other in ((left, right), (right, left)):
        could_be = isinstance(one, (Unknown, Choice)) or (isinstance(one, Tensor) and not one.known)
        if isinstance(other, Const) and other.value is None and not could_be:
            same = one.is_none if isinstance(one, Tensor) else isinstance(one, Const) and one.value is None
    if isinstance(left, Const) and isinstance(right, Const) and same is None:
        same = left.value is right.value
    return PLAIN if same is None else Const(same == isinstance(op, ast.Is))


def _contains(op: ast.cmpop, left: Value, right: Value) -> Value:
    found: bool | None = None
    if isinstance(left, Const) and isinstance(right, Dictionary) and right.rest is None and hashable(left.value):
        found = left.value in right.items
    elif (
        isinstance(left, Const)
        and isinstance(right, Const)
        and isinstance(left.value, str)
        and isinstance(right.value, str)
    ):
        found = left.value in right.value
    elif isinstance(left, Const) and isinstance(right, Items) and right.rest is None:
        constants = [item.value for item in right.items if isinstance(item, Const)]
        found = left.value in constants if len(constants) == len(right.items) else None
    return PLAIN if found is None else Const(found == isinstance(op, ast.In))
