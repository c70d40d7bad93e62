"""Patches of Python that load the user's files with marks, and that define the names which marks call."""

from __future__ import annotations

import ast
import functools
import marshal
import runpy
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from typing import Any

from outplace.runtime import instrument
from outplace.runtime.instrument import loading, marks, twins
from outplace.runtime.patches.code_injection import rewritten
from outplace.runtime.patches.table import Patch, Undo, replaced, swap


def names() -> Iterator[Patch]:
    """The names that marked code calls."""
    why = "Code with marks calls these names, which no module of the program has to import."
    yield Patch("builtins.__outplace_*__", "name in builtins", why, _publish, _DELETED)


_DELETED = "The names are deleted; if code with marks is still in use, they stay and do nothing."


def _publish() -> Undo:
    instrument.publish()
    return lambda: instrument.unpublish(twins.in_use())


def loaders() -> Iterator[Patch]:
    """The loaders that add marks to the user's files, for every way of loading them."""
    why = "Modules of the program's own are compiled with marks."
    yield replaced(SourceFileLoader, "get_code", lambda _: loading.get_code_with_marks, why)
    why = "`runpy.run_path` compiles scripts of the program's own with marks."
    yield replaced(runpy, "_get_code_from_file", lambda _: loading.read_code_with_marks, why)
    yield replaced(marshal, "dumps", _storing, _STORED)
    yield replaced(marshal, "dump", _storing, _STORED)
    why = "`compile` and `exec` in marked code put marks into what they compile."
    yield bound("COMPILE", loading.compile_with_marks, why)


STORING = {
    "cloudpickle.cloudpickle": "_code_reduce",
    "joblib.externals.cloudpickle.cloudpickle": "_code_reduce",
    "dill._dill": "save_code",
}
"""Modules that pickle a function with its code, and the function that takes the code apart, as `obj`."""


def stored_code(module: str) -> Iterator[Patch]:
    """The function of such a module, which is imported when the patch is put in place."""
    name = STORING[module]

    def put() -> Undo:
        function = getattr(sys.modules[module], name)
        return rewritten(function, _begin_without_marks, {_PLAIN: twins.without_marks}, _STORED).put()

    yield Patch(f"{module}.{name}", "code injected", _STORED, put)


_STORED = "Code is stored without marks: what loads it may not have them."


def _begin_without_marks(definition: ast.FunctionDef) -> None:
    first = ast.parse(f"obj = {_PLAIN}(obj)").body[0]
    for node in ast.walk(first):
        ast.copy_location(node, definition.body[0])
    definition.body.insert(0, first)


_PLAIN = "__outplace_plain__"


def _storing(function: Callable[..., Any]) -> Callable[..., Any]:
    """`marshal.dump` or `marshal.dumps`, for code without marks."""

    @functools.wraps(function)
    def store(value: Any, *rest: Any, **named: Any) -> Any:
        return function(twins.without_marks(value), *rest, **named)

    return store


def examples() -> Iterator[Patch]:
    """doctest, which compiles the examples of docstrings."""
    import doctest

    why = "The examples of docstrings are compiled with marks."
    yield Patch("doctest.compile", "replaced", why, lambda: swap(doctest, "compile", loading.compile_example))


def bound(name: str, function: Callable[..., Any], why: str) -> Patch:
    """A name that marked code calls, bound to a function that needs torch."""
    target = f"builtins.{getattr(marks, name)}"
    return Patch(
        target,
        "name in builtins",
        why,
        lambda: instrument.bind(name, function),
        "It is bound to a function that does nothing.",
    )
