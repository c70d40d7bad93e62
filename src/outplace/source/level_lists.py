"""Arguments that are lists with one tensor for each level, as in heads of detectors: `x[i] = self.convs[i](x[i])`.

An unknown `x` may be a tensor, and then the assignment overwrites what the convolution keeps. Two things say that it is
a list: items that are put back in another shape, and modules of other sizes for each item.
"""

from __future__ import annotations

import ast
import re

from outplace.knowledge.syntax_trees import text_of, walk
from outplace.knowledge.traits import has
from outplace.source.values import Function

_ITEMS = re.compile(r"\]\s*[=(]")
"""`x[i] = ` and `self.convs[i](`: a function without them does nothing with items."""


def given_by_level(function: Function) -> set[str]:
    """The names that are lists, by what the function does with their items."""
    node = function.node
    text = "\n".join(function.module.lines[node.lineno - 1 : node.end_lineno])
    if _ITEMS.search(text) is None:
        return set()
    return _used_by_level(node, function.owner.node if function.owner is not None else None)


def _used_by_level(function: ast.AST, owner: ast.ClassDef | None) -> set[str]:
    names: set[str] = set()
    sized: set[str] | None = None
    for node in walk(function):
        if isinstance(node, ast.Assign) and _is_reshaped(node.value, node.targets[0]):
            names |= _of_items(node.targets)
        elif owner is not None and isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            sized = _lists_of_sizes(owner) if sized is None else sized
            if text_of(node.func.value) in sized:
                names |= _of_items(node.args)
    return names


def _of_items(nodes: list[ast.expr]) -> set[str]:
    """Those of which `name[i]` is one of the nodes."""
    return {
        node.value.id
        for node in nodes
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and not isinstance(node.slice, (ast.Slice, ast.Tuple))
    }


def _is_reshaped(value: ast.expr, item: ast.expr) -> bool:
    """Is it `item.view(...).permute(...)`?"""
    methods = set[str]()
    if not isinstance(item, ast.Subscript):
        return False
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        methods.add(value.func.attr)
        value = value.func.value
    return any(map(_gives_another_shape, methods)) and text_of(value) == text_of(item)


def _gives_another_shape(method: str) -> bool:
    return has(method, "in_order") and not has(method, "keeps_shape")


def _lists_of_sizes(owner: ast.ClassDef) -> set[str]:
    """`self.convs = nn.ModuleList(nn.Conv2d(size, 8, 1) for size in sizes)`: rows of one tensor have one size."""
    return {
        text_of(target)
        for node in walk(owner)
        if isinstance(node, ast.Assign) and _makes_sizes(node.value)
        for target in node.targets
    }


def _makes_sizes(value: ast.expr) -> bool:
    if not isinstance(value, ast.Call) or len(value.args) != 1 or not _last_name(value.func).endswith("ModuleList"):
        return False
    modules = value.args[0]
    if not isinstance(modules, (ast.GeneratorExp, ast.ListComp)) or len(modules.generators) != 1:
        return False
    size, among = modules.generators[0].target, modules.generators[0].iter
    counts = isinstance(among, ast.Call) and text_of(among.func) in ("range", "enumerate")
    return isinstance(size, ast.Name) and not counts and _is_given(size.id, modules.elt)


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_given(size: str, module: ast.expr) -> bool:
    calls = (node for node in walk(module) if isinstance(node, ast.Call))
    return any(isinstance(arg, ast.Name) and arg.id == size for call in calls for arg in call.args)
