"""Whether an attribute is set only while objects are made."""

from __future__ import annotations

import ast

from outplace.repair.syntax.code import Code
from outplace.repair.syntax.files import Files


def is_built_once(files: Files, name: str) -> bool:
    """Is this attribute set only while objects are made? (`self.penalty`, a graph over all weights.)"""
    settings = [(home, node) for home in files.codes(name) for node in ast.walk(home.tree) if _sets(node, name)]
    return bool(settings) and all(_runs_once(files, home, node, _DEEPEST) for home, node in settings)


_DEEPEST = 4
_ADDING = ("append", "appendleft", "extend", "insert", "add", "update", "setdefault")


def _sets(node: ast.AST, name: str) -> bool:
    """Does it set the attribute: `x.name = ...`, `x.name[key] = ...`, `x.name.append(...)`?"""
    if isinstance(node, ast.Call):
        held = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr in _ADDING else None
        return isinstance(held, ast.Attribute) and held.attr == name
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        return isinstance(node.value, ast.Attribute) and node.value.attr == name
    return isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Store)


def _runs_once(files: Files, code: Code, node: ast.AST, depth: int) -> bool:
    """Does only `__init__` run it, or the file itself, once?"""
    function = code.function(node)
    if function is None:
        return not code.loops(node)
    if isinstance(function, ast.Lambda) or depth == 0:
        return False
    name = function.name
    if name in ("forward", "__call__"):
        return False  # they are called without their names
    calls = [
        (home, call)
        for home in files.codes(name)
        for call in home.every(ast.Call)
        if isinstance(call.func, ast.Name | ast.Attribute) and ast.unparse(call.func).split(".")[-1] == name
    ]
    return name == "__init__" or (bool(calls) and all(_runs_once(files, home, call, depth - 1) for home, call in calls))
