"""Which function a call runs, and which constructor made the module that it runs. The analysis answers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from outplace.knowledge.traits import method_has
from outplace.repair.facts.aliases import calls_of, span_of
from outplace.repair.syntax.calls import called_name
from outplace.repair.syntax.code import Code, Function, is_library
from outplace.repair.syntax.files import Files
from outplace.source.facts import Definition, Span
from outplace.source.heuristics import may_store

_MOST_CALLERS = 4
"""How many callers of callers are looked at."""


def callee_of(files: Files, code: Code, call: ast.Call) -> tuple[Code, Function, bool] | None:
    """The project's function or method that a call runs, if it is one; True if its first argument is the receiver."""
    found = functions_of(files, code, call)
    if found is None:
        return _only_method(files, call)
    found = [item for item in found if not item[2] or item[1].name == called_name(call)]  # not a module's forward
    return found[0] if len(found) == 1 else None


def functions_of(files: Files, code: Code, call: ast.Call) -> list[tuple[Code, Function, bool]] | None:
    """The project's functions that the analysis has seen a call run; None if it has seen none."""
    known = files.inquiry.call(span_of(code, call)).functions
    found = [item for item in (_function(files, definition) for definition in known) if item is not None]
    return found if known else None


def own_methods(files: Files, code: Code, statement: ast.stmt) -> Iterator[tuple[Code, Function]]:
    """The methods that a statement calls on its own object: `self.compute()`."""
    for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
        own = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "self"
        callee = callee_of(files, code, call) if own else None
        if callee is not None:
            yield callee[:2]


def runs(files: Files, code: Code, call: ast.Call, home: Code, function: Function) -> bool:
    """Does the call run this function, by any name, or as the forward of a module?"""
    place = (home.path, function.lineno, function.col_offset)
    return any(definition[:3] == place for definition in files.inquiry.call(span_of(code, call)).functions)


def runs_within(files: Files, code: Code, node: ast.AST, home: Code, function: Function) -> bool:
    """Does a call in this node run the function, or run another one that does?"""
    return node is function or any(found is function for _, found in functions_within(files, code, node))


def functions_within(files: Files, code: Code, node: ast.AST) -> Iterator[tuple[Code, Function]]:
    """The project's functions that the calls in this node run, and those that these run."""
    waiting: list[tuple[Code, ast.AST]] = [(code, node)]
    seen: set[ast.AST] = set()
    while waiting:
        code, node = waiting.pop()
        for call in (part for part in ast.walk(node) if isinstance(part, ast.Call)):
            for home, function, _ in functions_of(files, code, call) or ():
                if function not in seen:
                    seen.add(function)
                    waiting.append((home, function))
                    yield home, function


def networks_within(files: Files, code: Code, node: ast.AST) -> Iterator[Function | Span]:
    """What computes with weights in these calls, and in what they run: forwards, and calls that made layers."""
    parts = [(code, node), *functions_within(files, code, node)]
    yield from (function for _, function in parts[1:] if isinstance(function, Function) and function.name == "forward")
    for home, part in parts:
        for call in (item for item in ast.walk(part) if isinstance(item, ast.Call)):
            yield from files.inquiry.call(span_of(home, call)).layers


def constructors_behind(files: Files, code: Code, call: ast.Call) -> list[tuple[Code, ast.Call]]:
    """The calls that made the layers which run in this call: `nn.ReLU(True)` of `self.block(x)`."""
    found: list[tuple[Code, ast.Call]] = []
    for span in files.inquiry.call(span_of(code, call)).layers:
        home = files.code(span.file)
        node = home.expression(*span[1:]) if home is not None else None
        if home is not None and isinstance(node, ast.Call):
            found.append((home, node))
    return found


def argument_of(function: Function, call: ast.Call, name: str, bound: bool) -> ast.expr | None:
    """The argument of a call for a parameter of the function."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    positions = [arg.arg for arg in [*function.args.posonlyargs, *function.args.args]][1 if bound else 0 :]
    if name not in positions or any(isinstance(arg, ast.Starred) for arg in call.args):
        return None
    index = positions.index(name)
    return call.args[index] if index < len(call.args) else None


def is_built_once(files: Files, name: str) -> bool:
    """Is this attribute set only while objects are made? (`self.penalty`, a graph over all weights.)"""
    settings = [(home, node) for home in files.codes(name) for node in ast.walk(home.tree) if _sets(node, name)]
    return bool(settings) and all(_runs_once(files, home, node, _MOST_CALLERS) for home, node in settings)


def _sets(node: ast.AST, name: str) -> bool:
    """Does it set the attribute: `x.name = ...`, `x.name[key] = ...`, `x.name.append(...)`?"""
    if isinstance(node, ast.Call):
        node = node.func.value if isinstance(node.func, ast.Attribute) and may_store(node.func.attr) else node
    elif not isinstance(node, ast.Attribute | ast.Subscript) or not isinstance(node.ctx, ast.Store):
        return False
    held = node.value if isinstance(node, ast.Subscript) else node
    return isinstance(held, ast.Attribute) and held.attr == name


def _runs_once(files: Files, code: Code, node: ast.AST, callers: int) -> bool:
    """Does only `__init__` run it, or the file itself, once?"""
    function = code.function(node)
    if function is None:
        return not code.loops(node)
    if not isinstance(function, Function) or callers == 0 or function.name in ("forward", "__call__"):
        return False  # forward is called without its name
    calls = calls_of(files, code, function) if function.name != "__init__" else []
    return (
        calls is not None
        and (bool(calls) or function.name == "__init__")
        and all(_runs_once(files, home, call, callers - 1) for home, call, _ in calls)
    )


def _function(files: Files, definition: Definition) -> tuple[Code, Function, bool] | None:
    code = files.code(definition.file)
    for function in code.functions if code is not None else ():
        if (function.lineno, function.col_offset) == definition[1:3]:
            return code, function, definition.bound  # type: ignore[return-value]
    return None


def _only_method(files: Files, call: ast.Call) -> tuple[Code, Function, bool] | None:
    """The method of an object that the analysis does not know, if only one class has a method of this name."""
    function = call.func
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name | ast.Attribute):
        return None
    if is_library(function.value) or method_has(function.attr, "may_share"):
        return None
    found = [
        (code, method)
        for code in files.codes(function.attr)
        for owner in code.every(ast.ClassDef)
        for method in owner.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and method.name == function.attr
    ]
    static = any(ast.unparse(decorator) == "staticmethod" for _, method in found for decorator in method.decorator_list)
    return (*found[0], not static) if len(found) == 1 else None
