"""Names that come from elsewhere: imports, `global`, `nonlocal`."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from outplace.source.frames import Stop
from outplace.source.values import UNKNOWN, Const, Imported, Items, Namespace, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def _import(interpreter: Interpreter, node: ast.Import) -> int:
    for alias in node.names:
        value = interpreter.import_module(alias.name)
        if alias.asname is None and "." in alias.name:
            value = interpreter.import_module(alias.name.split(".")[0])
        interpreter.frame.scope.set(alias.asname or alias.name.split(".")[0], value)
    return Stop.RAN


def _import_from(interpreter: Interpreter, node: ast.ImportFrom) -> int:
    base, package = node.module or "", interpreter.frame.module.package
    if node.level and package:
        parts = package.split(".")
        base = ".".join([*parts[: len(parts) - (node.level - 1)], *([base] if base else [])])
    beside = node.level == 1 and not package  # in a folder without `__init__.py`
    holder = interpreter.import_module(base) if base else UNKNOWN
    for alias in node.names:
        if alias.name == "*":
            if isinstance(holder, Namespace):
                interpreter.frame.scope.names.update(_all_of(interpreter, holder))
            continue
        value: Value
        if isinstance(holder, Namespace):
            value = Imported(holder, alias.name)
        elif (base or beside) and isinstance(inner := _module(interpreter, base, alias.name), Namespace):
            value = inner
        else:
            value = interpreter.attribute(holder, alias.name, node)
        interpreter.frame.scope.set(alias.asname or alias.name, value)
    return Stop.RAN


def _all_of(interpreter: Interpreter, holder: Namespace) -> Mapping[str, Value]:
    """What `import *` takes over. The module is run when one of the names is used, if its text shows them all."""
    module = interpreter.project.load(holder.path)
    names = _bound(module.tree) if module is not None and not module.started else None
    return _public(interpreter.names_of(holder)) if names is None else {n: Imported(holder, n) for n in names}


def _bound(tree: ast.Module) -> set[str] | None:
    """The public names that the top level of a file may bind; None if its text does not show them all."""
    found, listed = set[str](), set[str]()
    waiting: list[ast.AST] = list(tree.body)
    for node in waiting:  # grows
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update(alias.asname or alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Assign) and _lists_names(node):
            listed.update(ast.literal_eval(node.value))
        elif not isinstance(node, ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))
    if not found.isdisjoint({"*", "__all__", "__getattr__"}):
        return None
    return {name for name in found if not name.startswith("_")} | (found & listed)


def _lists_names(node: ast.Assign) -> bool:
    """Is it `__all__ = ["a", "b"]`?"""
    return (
        [ast.unparse(target) for target in node.targets] == ["__all__"]
        and isinstance(node.value, ast.List | ast.Tuple)
        and all(isinstance(item, ast.Constant) for item in node.value.elts)
    )


def _public(names: dict[str, Value]) -> dict[str, Value]:
    """What `import *` takes over: not `__name__` and other names with an underscore, unless `__all__` lists them."""
    listed = names.get("__all__")
    chosen = [item.value for item in listed.items if isinstance(item, Const)] if isinstance(listed, Items) else []
    return {name: value for name, value in names.items() if not name.startswith("_") or name in chosen}


def _module(interpreter: Interpreter, base: str, name: str) -> Value:
    return interpreter.import_module(f"{base}.{name}" if base else name)


def _global(interpreter: Interpreter, node: ast.Global) -> int:
    for name in node.names:
        interpreter.frame.scope.shared[name] = interpreter.frame.module.scope
    return Stop.RAN


def _nonlocal(interpreter: Interpreter, node: ast.Nonlocal) -> int:
    for name in node.names:
        scope = interpreter.frame.scope.outer
        while scope is not None and name not in scope.names:
            scope = scope.outer
        if scope is not None:
            interpreter.frame.scope.shared[name] = scope
    return Stop.RAN


STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.Import: _import, ast.ImportFrom: _import_from, ast.Global: _global, ast.Nonlocal: _nonlocal,
}  # fmt: skip
