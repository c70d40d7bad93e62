"""Which branches a running function can still take: conditions that its own variables decide."""

from __future__ import annotations

import ast
from functools import partial
from types import FrameType

from outplace.repair.syntax.code import Code
from outplace.repair.syntax.flow import binds, names_in, used_later
from outplace.runtime.errors.freed_names import value_of
from outplace.runtime.locate import sites
from outplace.runtime.record.snapshots import PLAIN


def is_used_later(frame: FrameType, code: Code, statement: ast.stmt, name: str) -> bool:
    """Is the name read after this statement, in a branch that may still run?"""
    if not used_later(code, statement, name):
        return False  # before the frame is read: it keeps the values alive that it showed
    return used_later(code, statement, name, partial(_holds, frame, code, statement))


def only_branches_read(place: ast.expr, frame: FrameType) -> bool:
    """Do only branches that will not run read this name later?"""
    standing = sites.statement_of(frame)
    if standing is None or not isinstance(place, ast.Name) or not used_later(*standing, place.id):
        return False
    return not is_used_later(frame, *standing, place.id)


def _holds(frame: FrameType, code: Code, statement: ast.stmt, condition: ast.expr) -> bool | None:
    """Is a condition below the statement true: a flag, or `x.requires_grad`? None if that may change."""
    negated = isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not)
    value = _flag(condition.operand if isinstance(condition, ast.UnaryOp) and negated else condition, frame)
    if value is None or any(_is_bound_below(name, code, statement) for name in names_in(condition)):
        return None
    return value is not negated


def _flag(condition: ast.expr, frame: FrameType) -> bool | None:
    if isinstance(condition, ast.Attribute) and condition.attr == "requires_grad":
        tensor = value_of(condition.value, frame)
        return bool(tensor.requires_grad) if type(tensor) in PLAIN else None
    value = value_of(condition, frame)
    return value if type(value) is bool else None


def _is_bound_below(name: str, code: Code, statement: ast.stmt) -> bool:
    """May the name get another value after the statement?"""
    loops = code.loops(statement)
    first = min([statement.lineno, *(loop.lineno for loop in loops)])
    return any(binds(node, name) for node in ast.walk(code.scope(statement)) if getattr(node, "lineno", 0) >= first)
