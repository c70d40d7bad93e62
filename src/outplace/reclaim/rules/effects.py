"""Does a function have side effects? Reads the source of code that would run twice."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from outplace.reclaim.observe.recording import Instruction
from outplace.reclaim.rules.holders import node_at
from outplace.repair.syntax.code import Function, root_of
from outplace.repair.syntax.files import Files

_CHANGING = {
    "append",
    "appendleft",
    "add",
    "insert",
    "extend",
    "setdefault",
    "update",
    "put",
    "pop",
    "popleft",
    "clear",
}
"""Methods by which containers are changed."""
_DOING = {"print", "input", "open", "next", "setattr", "delattr", "exec", "eval"}
_OUTSIDE = {"random", "time", "logging", "logger", "log", "writer", "register_buffer", "add_module", "register_module"}
"""Parts of names that mean a side effect: random numbers, clocks, logs."""
_PURE = {"math", "torch", "np", "numpy"}
"""Modules whose `log` is a logarithm."""


class Effects:
    """Side effects of the functions in some files."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: dict[Function, bool] = {}
        self._functions: dict[str, list[Function]] = {}
        for code in files.codes("def"):
            for node in ast.walk(code.tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    self._functions.setdefault(node.name, []).append(node)

    def at(self, instruction: Instruction) -> bool:
        """Does the enclosing function, or a function that it calls by name, have side effects?"""
        found = node_at(self._files, instruction)
        function = found[0].function(found[1]) if found is not None else None
        if function is None or isinstance(function, ast.Lambda):
            return True
        if function not in self._known:
            self._known[function] = any(_acts(callee) for callee in self._with_callees(function))
        return self._known[function]

    def _with_callees(self, function: Function) -> Iterator[Function]:
        waiting, seen = [function], {function}
        while waiting:
            one = waiting.pop()
            yield one
            called = {_name_of(node.func) for node in ast.walk(one) if isinstance(node, ast.Call)}
            found = {node for name in called for node in self._functions.get(name, ())} - seen
            seen |= found
            waiting += found


def _name_of(function: ast.expr) -> str:
    """The name `step` in `step(x)` and `self.step(x)`; None for other calls."""
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "self":
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _acts(function: Function) -> bool:
    own = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    arguments = {n.arg for n in ast.walk(function.args) if isinstance(n, ast.arg)}
    return any(_is_effect(node, own - arguments) for node in ast.walk(function))


def _is_effect(node: ast.AST, own: set[str]) -> bool:
    if isinstance(node, ast.Global | ast.Nonlocal | ast.Yield | ast.YieldFrom | ast.Await):
        return True
    if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return isinstance(node, ast.Attribute) or not _is_own(node, own)
    if not isinstance(node, ast.Call):
        return False
    parts = ast.unparse(node.func).split(".")
    if parts[0] in _DOING or any(word.arg == "generator" for word in node.keywords):
        return True
    outside = _OUTSIDE.intersection(parts) - ({"log"} if parts[0] in _PURE or len(node.args) == 0 else set())
    changes = isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING and parts[0] not in _PURE
    return bool(outside) or (changes and not _is_own(node.func, own))


def _is_own(node: ast.expr, own: set[str]) -> bool:
    """Is this part of an object that the function itself has made?"""
    root = root_of(node.value) if isinstance(node, ast.Attribute | ast.Subscript) else node
    return isinstance(root, ast.Name) and root.id in own
