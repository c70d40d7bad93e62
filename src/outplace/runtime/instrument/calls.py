"""Makes the calls of marks, and numbers the marked places."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NamedTuple

from outplace.runtime.instrument.marks import KEEP, MARK
from outplace.runtime.instrument.syntax import header_end


class Calls(ast.NodeTransformer):
    """What both halves of the marker use."""

    def __init__(self, filename: str) -> None:
        self._file = filename
        self._scope: list[str] = []
        self._in_class_body = False
        self._long_statement = False

    def number(self, node: ast.stmt | ast.expr, line: int | None = None, column: int | None = None) -> ast.Constant:
        """The number of a place, as written in the call of its mark."""
        function = ".".join(self._scope) if self._scope else "<module>"
        line = node.lineno if line is None else line
        column = node.col_offset if column is None else column
        end_line, end_column = node.end_lineno or line, node.end_col_offset or column
        if isinstance(node, ast.For | ast.AsyncFor | ast.With | ast.AsyncWith | ast.If | ast.While | ast.ClassDef):
            header = header_end(node)  # the mark is for the header; the body has its own marks
            end_line, end_column = header.end_lineno or line, header.end_col_offset or column
        decorators = getattr(node, "decorator_list", None)
        if decorators:  # the decorators run, on their own lines
            line, column = decorators[0].lineno, decorators[0].col_offset
            end_line, end_column = decorators[-1].end_lineno, decorators[-1].end_col_offset
        STATEMENTS.append(Statement(self._file, line, end_line, column, end_column, function))
        return ast.copy_location(ast.Constant(len(STATEMENTS) - 1), node)

    def call(self, function: str, *arguments: ast.expr, where: ast.AST) -> ast.Call:
        """A call of one of the `marks`, at the lines and columns of `where`."""
        callee: ast.expr = ast.copy_location(ast.Name(function, ast.Load()), where)
        if self._in_class_body:
            callee = self._as_global(callee, arguments, where)
        return ast.copy_location(ast.Call(callee, list(arguments), []), where)

    def _as_global(self, name: ast.expr, arguments: Sequence[ast.expr], where: ast.AST) -> ast.expr:
        # A class body looks names up in its own namespace first, and a metaclass can supply any namespace. A lambda has
        # no such namespace.
        letters = [f"v{index}" for index, _ in enumerate(arguments)]
        inner = ast.Call(name, [ast.Name(letter, ast.Load()) for letter in letters], [])
        parameters = ast.arguments([], [ast.arg(letter) for letter in letters], None, [], [], None, [])
        function = ast.Lambda(parameters, inner)
        for node in ast.walk(function):
            if isinstance(node, ast.expr | ast.arg):
                ast.copy_location(node, where)
        return function

    def mark(self, node: ast.stmt | ast.expr) -> ast.Call:
        """The mark of a statement or an expression."""
        return self.call(MARK, self.number(node), where=node)

    def keep(self, value: ast.expr, way: str) -> ast.expr:
        """Wraps a value that is stored: in a context, in a list, or several times in one list."""
        return self.call(KEEP, value, ast.copy_location(ast.Constant(way), value), where=value)


class Statement(NamedTuple):
    """A marked place: a statement, or an operation inside one that spans several lines."""

    file: str
    line: int
    end_line: int
    column: int
    end_column: int
    function: str


STATEMENTS: list[Statement] = []
"""A mark is called with the index of its statement in this list."""
