"""The names that statements bind, and inserting lines before and after them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.flow import targets_of


def names_bound(statement: ast.stmt) -> list[str]:
    """The names that the statement itself binds."""
    return [node.id for target in targets_of(statement) for node in ast.walk(target) if isinstance(node, ast.Name)]


def names_bound_within(statement: ast.stmt) -> list[str]:
    """The names that the statement and the statements inside it bind."""
    return [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def binds_within(statement: ast.stmt, name: str) -> bool:
    """Is a name bound or deleted anywhere inside?"""
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store | ast.Del)
        for node in ast.walk(statement)
    )


def lines_before(code: Code, statement: ast.stmt, lines: list[str]) -> Edit | None:
    """Inserts lines before a statement; None if it does not begin its line."""
    return code.before(statement, f"\n{code.indent(statement)}".join(lines))


def lines_after(code: Code, statement: ast.stmt, lines: list[str]) -> Edit | None:
    """Inserts lines after a statement; None if it shares a line with others."""
    indent = code.indent(statement)
    return pasted(code, statement, [f"{indent}{text}" for text in lines]) if whole_lines(code, statement) else None


def pasted(code: Code, statement: ast.stmt, lines: list[str]) -> Edit:
    """Inserts lines after a statement's last line, which may be the file's last one without a line end."""
    return Edit(end_of(code, statement), end_of(code, statement), "".join(f"\n{text}" for text in lines))


def removed(code: Code, statement: ast.stmt) -> Edit:
    """Removes a statement's lines."""
    return Edit(code.offset(statement.lineno, 0), code.offset((statement.end_lineno or 0) + 1, 0), "")


def text_of(code: Code, statements: Iterable[ast.stmt]) -> list[str]:
    """The lines of statements."""
    return [line for statement in statements for line in code.lines[statement.lineno - 1 : statement.end_lineno]]


def moved_behind(
    code: Code, statements: Sequence[ast.stmt], target: ast.stmt, before: Iterable[str] = ()
) -> list[Edit]:
    """Moves statements, with lines before them, after another statement of their block."""
    return [
        *(removed(code, statement) for statement in statements),
        pasted(code, target, [*before, *text_of(code, statements)]),
    ]


def end_of(code: Code, statement: ast.stmt) -> int:
    """The end of a statement's last line."""
    line = statement.end_lineno or statement.lineno
    return code.offset(line, len(code.lines[line - 1].encode()))


def whole_lines(code: Code, statement: ast.stmt) -> bool:
    """Does it share no line with another statement?"""
    rest = code.lines[(statement.end_lineno or 1) - 1].encode()[statement.end_col_offset or 0 :].decode().strip()
    return code.begins_line(statement) and (not rest or rest.startswith("#"))


def listed(names: list[str]) -> str:
    """The names in a sentence: `a`, `b`."""
    return ", ".join(f"`{name}`" for name in names)
