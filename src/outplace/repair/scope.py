"""May a name be bound anew where its tensor was written in place? Only where those who read it read it by that name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def can_rebind(name: str, statement: ast.stmt, module: ast.Module) -> bool:
    """Would an assignment here reach the variable? Not from inside a function that only reads it from outside."""
    scope = _scope(statement, module)
    if isinstance(scope, ast.Module):
        return True
    declared = any(isinstance(node, ast.Global | ast.Nonlocal) and name in node.names for node in _nodes(scope))
    parameters = {arg.arg for arg in ast.walk(scope.args) if isinstance(arg, ast.arg)}
    return declared or name in parameters or name in _bound(scope)


def read_later(name: str, statement: ast.stmt, module: ast.Module) -> bool:
    """Is the name read after this statement, in the same function (or earlier in a loop around both)?

    If not, the write was meant for someone who knows the tensor by another name, and a new tensor would not reach them.
    """
    scope = _scope(statement, module)
    end = statement.end_lineno or statement.lineno
    loops = [
        loop
        for loop in _nodes(scope)
        if isinstance(loop, ast.For | ast.AsyncFor | ast.While) and _inside(statement, loop)
        if not (isinstance(loop, ast.For | ast.AsyncFor) and name in _names(loop.target))
    ]
    for node in _nodes(scope):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            around = any(_inside(node, loop) and not _inside(node, statement) for loop in loops)
            if around or node.lineno > end:
                return True
    return isinstance(statement, ast.Return)


def _scope(statement: ast.stmt, module: ast.Module) -> Function | ast.Module:
    functions = [node for node in ast.walk(module) if isinstance(node, Function) and _inside(statement, node)]
    return max(functions, key=lambda function: function.lineno, default=module)


def _inside(node: ast.expr | ast.stmt, outer: ast.expr | ast.stmt) -> bool:
    return node is not outer and outer.lineno <= node.lineno <= (outer.end_lineno or outer.lineno)


def _nodes(scope: Function | ast.Module) -> Iterator[ast.AST]:
    """The nodes of this scope; those of functions inside it too, which may read its names."""
    yield from ast.walk(scope)


def _names(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def _bound(scope: Function | ast.Module) -> set[str]:
    stores = (node for node in _nodes(scope) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return {node.id for node in stores}
