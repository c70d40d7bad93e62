"""The rules of the house that no linter holds: CONTRIBUTING.md, "Rules for changes"."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "outplace"
LONGEST = 500
MOST_COMPLEX = 20
DATA = {"knowledge/errors.py"}
"""Modules that are tables: their length is no burden to a reader."""


def modules() -> dict[str, str]:
    return {path.relative_to(SOURCE).as_posix(): path.read_text() for path in sorted(SOURCE.rglob("*.py"))}


def complexity(function: ast.AST) -> int:
    """McCabe's number, with each `and`, `or`, conditional expression and comprehension counted as a branch."""
    branches = 0
    for node in ast.walk(function):
        match node:
            case ast.If() | ast.IfExp() | ast.For() | ast.AsyncFor() | ast.While() | ast.ExceptHandler() | ast.Assert():
                branches += 1
            case ast.match_case():
                branches += 1
            case ast.BoolOp():
                branches += len(node.values) - 1
            case ast.comprehension():
                branches += 1 + len(node.ifs)
    return branches + 1


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node


def test_the_measure_counts_branches():
    program = "def f(x, y):\n    if x and y:\n        return [i for i in x if i]\n    return 1 if y else 2"
    assert [complexity(node) for _, node in functions(ast.parse(program))] == [6]


def test_no_module_is_long():
    lengths = {name: text.count("\n") for name, text in modules().items() if name not in DATA}
    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}


def test_no_function_is_complex():
    found = {
        f"{name}: {function}": number
        for name, text in modules().items()
        for function, node in functions(ast.parse(text))
        if (number := complexity(node)) > MOST_COMPLEX
    }
    assert found == {}


def imported_at_once(name: str, text: str, known: set[str]) -> set[str]:
    """The modules that are imported while this one is: each with its packages, without the packages of this one."""
    statements: list[ast.stmt] = list(ast.parse(text).body)
    found: set[str] = set()
    while statements:
        node = statements.pop()
        if isinstance(node, ast.If | ast.Try):
            later = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            statements += [] if later else [*node.body, *node.orelse]
        elif isinstance(node, ast.ImportFrom):
            assert node.module and not node.level
            parts = [f"{node.module}.{alias.name}" for alias in node.names]
            found.update(part if part in known else node.module for part in parts)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    every = {
        ".".join(words[:size]) for words in (part.split(".") for part in found) for size in range(1, len(words) + 1)
    }
    return {part for part in every & known if part != name and not name.startswith(f"{part}.")}


def test_every_module_can_be_imported_first():
    """No modules import each other while they are imported: then it does not matter which one comes first."""
    names = {path: f"outplace.{path[:-3].replace('/', '.')}".removesuffix(".__init__") for path in modules()}
    waiting = {
        names[path]: imported_at_once(names[path], text, set(names.values())) for path, text in modules().items()
    }
    while free := {name for name, imports in waiting.items() if not imports & waiting.keys()}:
        waiting = {name: imports for name, imports in waiting.items() if name not in free}
    assert sorted(waiting) == []
