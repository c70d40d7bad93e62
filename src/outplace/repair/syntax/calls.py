"""The calls in the source: what is called, and on what."""

from __future__ import annotations

import ast
from typing import NamedTuple

from outplace.knowledge.traits import inplace_position


class MethodCall(NamedTuple):
    """`optimizer.step(closure)`: the call, `optimizer`, and `step`."""

    call: ast.Call
    receiver: ast.expr
    name: str


def called_name(call: ast.Call) -> str:
    """The last part of the name: `ReLU` of `nn.ReLU()`, `step` of `optimizer.step()`."""
    return ast.unparse(call.func).split(".")[-1]


def called_names(node: ast.AST) -> set[str]:
    """The names of all calls inside a node."""
    return {called_name(call) for call in ast.walk(node) if isinstance(call, ast.Call)}


def identifiers(node: ast.AST) -> set[str]:
    """All names inside a node: of variables, attributes, arguments and imports."""
    found: set[str | None] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            found.add(part.id)
        elif isinstance(part, ast.Attribute):
            found.add(part.attr)
        elif isinstance(part, ast.arg | ast.keyword):
            found.add(part.arg)
        elif isinstance(part, ast.alias):
            found.add(part.name.split(".")[-1])
    return {name for name in found if name is not None}


def only_call(node: ast.AST | None) -> ast.Call | None:
    """The call that a statement consists of, or the node itself if it is a call."""
    value = node.value if isinstance(node, ast.Expr) else node
    return value if isinstance(value, ast.Call) else None


def method_call(node: ast.AST | None, *names: str) -> MethodCall | None:
    """The method call that a statement consists of; if names are given, only a call of one of these methods."""
    call = only_call(node)
    if call is None or not isinstance(call.func, ast.Attribute) or (names and call.func.attr not in names):
        return None
    return MethodCall(call, call.func.value, call.func.attr)


def is_inplace_call(call: ast.Call) -> bool:
    """`x.add_(1)`, `torch.relu_(x)`, `F.relu(x, inplace=True)`: the result is the argument itself."""
    return (isinstance(call.func, ast.Attribute) and is_writing_name(call.func.attr)) or has_flag(call)


def is_writing_name(method: str) -> bool:
    """PyTorch's convention: `add_` writes its tensor. `__add__` does not."""
    return method.endswith("_") and not method.endswith("__")


def has_flag(call: ast.Call) -> bool:
    """Does it pass `inplace=` anything but False, by name or by position?"""
    for keyword in call.keywords:
        if keyword.arg == "inplace":
            return not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
    position = inplace_position(called_name(call))
    flag = call.args[position] if position is not None and position < len(call.args) else None
    return isinstance(flag, ast.Constant) and flag.value is True
