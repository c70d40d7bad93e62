"""Names that come from elsewhere: imports, `global`, `nonlocal`."""

from __future__ import annotations

import ast
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
                interpreter.frame.scope.names.update(_public(interpreter.names_of(holder)))
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
