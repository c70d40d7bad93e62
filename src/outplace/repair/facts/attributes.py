"""What an attribute holds: a value that is computed once, or a container."""

from __future__ import annotations

import ast

from outplace.repair.syntax.code import Code
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import flat

_ITEMS = ("Counter", "OrderedDict", "defaultdict", "deque", "dict", "list")


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


def holds_items(files: Files, code: Code, held: ast.Attribute) -> bool:
    """Is `self.totals` a list or a dict, in every binding of its class? For other objects: in any file."""
    name = held.attr
    owner = code.class_of(held) if ast.unparse(held.value) == "self" else None
    trees = [owner] if owner is not None else [home.tree for home in files.codes(name)]
    values = [
        _value_for_attribute(node, target)
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in flat(node.targets)
        if isinstance(target, ast.Attribute) and target.attr == name
    ]
    known = [value for value in values if not (isinstance(value, ast.Constant) and value.value is None)]
    return bool(known) and all(makes_items(value) for value in known)


def makes_items(value: ast.expr | None) -> bool:
    """`[]`, `{}`, `defaultdict(list)`: a container, not a tensor."""
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).split(".")[-1] in _ITEMS
    return isinstance(value, ast.List | ast.ListComp | ast.Dict | ast.DictComp)


def _value_for_attribute(node: ast.Assign, target: ast.Attribute) -> ast.expr | None:
    for whole in node.targets:
        if whole is target:
            return node.value
        both = isinstance(whole, ast.Tuple | ast.List) and isinstance(node.value, ast.Tuple | ast.List)
        if both and len(whole.elts) == len(node.value.elts) and target in whole.elts:  # type: ignore[attr-defined]
            return node.value.elts[whole.elts.index(target)]  # type: ignore[attr-defined, no-any-return]
    return node.value
