"""A source file as repairs see it: its text, its syntax tree, and the mapping between them."""

from __future__ import annotations

import ast
import math
from collections import deque
from collections.abc import Iterator
from functools import cached_property
from typing import TypeVar

from outplace.files.quiet import quietly
from outplace.knowledge.traits import method_has
from outplace.model import Site
from outplace.repair.syntax.edits import Edit

Function = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.AsyncFor | ast.While
_N = TypeVar("_N", bound=ast.AST)
_MaybeExpr = TypeVar("_MaybeExpr", ast.expr, ast.expr | None)


class Code:
    """One source file. Lines end in `\\n`, whatever the line ends on disk."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text = path, text
        self.lines = text.split("\n")
        with quietly():
            self.tree = ast.parse(text)
        self._on_line: dict[int, list[ast.expr | ast.stmt]] = {}
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Each node's parent."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def _nodes(self) -> dict[type[ast.AST], list[ast.AST]]:
        found: dict[type[ast.AST], list[ast.AST]] = {}
        for node in ast.walk(self.tree):
            found.setdefault(type(node), []).append(node)
        return found

    def every(self, kind: type[_N]) -> list[_N]:
        """All nodes of a class. Repairs ask for this so often that the tree is walked only once."""
        return self._nodes.get(kind, [])  # type: ignore[return-value]

    @property
    def functions(self) -> list[Function]:
        """All functions, nested ones too."""
        return [*self.every(ast.FunctionDef), *self.every(ast.AsyncFunctionDef)]

    # -- positions ----------------------------------------------------------------------------------------------------

    def offset(self, line: int, column: int) -> int:
        """The position in the text of a column in UTF-8 bytes, as in the syntax tree."""
        text = self.lines[line - 1]
        return self._starts[line - 1] + (column if text.isascii() else len(text.encode()[:column].decode()))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """The start and the end of a node in the text."""
        end = self.offset(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
        return self.offset(node.lineno, node.col_offset), end

    def segment(self, node: ast.expr | ast.stmt) -> str:
        """The text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    def replaced(self, node: ast.expr | ast.stmt, text: str) -> Edit:
        """An edit that replaces a node by a text."""
        return Edit(*self.span(node), text)

    def followed(self, text: str, *nodes: ast.expr) -> list[Edit]:
        """The edits that put a text right after nodes: `.clone()`."""
        return [Edit(end, end, text) for end in dict.fromkeys(self.span(node)[1] for node in nodes)]

    def surrounded(self, node: ast.expr, before: str, after: str) -> list[Edit]:
        """The edits that put a text before a node and another one after it: `copy.deepcopy(` and `)`."""
        start, end = self.span(node)
        return [Edit(start, start, before), Edit(end, end, after)]

    def line_end(self, line: int) -> int:
        """The position after the last character of a line."""
        return self.offset(line, len(self.lines[line - 1].encode()))

    def indent(self, statement: ast.stmt) -> str:
        """The indentation of a statement."""
        line = self.lines[statement.lineno - 1]
        return line[: len(line) - len(line.lstrip())]

    def before(self, statement: ast.stmt, text: str) -> Edit | None:
        """An edit that inserts a line before a statement; None if the statement does not begin its line."""
        if not self.begins_line(statement):
            return None
        start = self._starts[_first_line(statement) - 1]
        return Edit(start, start, f"{self.indent(statement)}{text}\n")

    def begins_line(self, statement: ast.stmt) -> bool:
        """Is it the first statement in its line, not after another statement or an `if x:`?"""
        return not self.lines[statement.lineno - 1][: self._characters(statement)].strip()

    def _characters(self, statement: ast.stmt) -> int:
        return self.offset(statement.lineno, statement.col_offset) - self._starts[statement.lineno - 1]

    # -- nodes --------------------------------------------------------------------------------------------------------

    def at(self, site: Site) -> ast.expr | ast.stmt | None:
        """The node of a site: the one with exactly its columns, else the innermost that contains its start."""
        best: ast.expr | ast.stmt | None = None
        for node in self._on(site.line):
            start = (node.lineno, self._column(node.lineno, node.col_offset))
            end = (node.end_lineno or 0, self._column(node.end_lineno or 0, node.end_col_offset or 0))
            if (start, end) == ((site.line, site.column), (site.end_line, site.end_column)):
                return node if not isinstance(node, ast.Expr) else node.value
            if start <= (site.line, site.column) and end >= (site.end_line, site.end_column):
                best = node
        if isinstance(best, ast.Attribute):  # a chain over several lines has the site of its last method
            parent = self.parents.get(best)
            best = parent if isinstance(parent, ast.Call) and parent.func is best else best
        return best

    def expression(self, line: int, column: int, end_line: int, end_column: int) -> ast.expr | None:
        """The expression with exactly this place, as `ast` counts."""
        for node in self._on(line):
            found = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
            if isinstance(node, ast.expr) and found == (line, column, end_line, end_column):
                return node
        return None

    def cloned(self, node: ast.expr) -> list[Edit]:
        """The edits that copy the value of an expression."""
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
            return self.followed(".clone()", node)
        return self.surrounded(node, "(", ").clone()")

    def is_cloned(self, node: ast.expr) -> bool:
        """`x.clone()` of this x?"""
        above = self.parents.get(node)
        return isinstance(above, ast.Attribute) and above.attr == "clone"

    def _on(self, line: int) -> list[ast.expr | ast.stmt]:
        """The nodes on a line, outer ones first."""
        if line not in self._on_line:
            found: list[ast.expr | ast.stmt] = []
            waiting: deque[ast.AST] = deque([self.tree])
            while waiting:
                for child in ast.iter_child_nodes(waiting.popleft()):
                    first, last = _lines(child)
                    if first <= line <= last:
                        waiting.append(child)
                        if isinstance(child, ast.expr | ast.stmt) and child.lineno <= line:
                            found.append(child)
            self._on_line[line] = found
        return self._on_line[line]

    def _column(self, line: int, column: int) -> int:
        if not 0 < line <= len(self.lines) or self.lines[line - 1].isascii():
            return column
        return len(self.lines[line - 1].encode()[:column].decode(errors="replace"))

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The ancestors of a node, innermost first."""
        around = self.parents.get(node)
        while around is not None:
            yield around
            around = self.parents.get(around)

    def nearest(self, node: ast.AST, *kinds: type[_N]) -> _N | None:
        """The innermost node of these classes that contains the node, or the node itself."""
        if isinstance(node, kinds):
            return node
        return next((above for above in self.above(node) if isinstance(above, kinds)), None)

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """The statement that contains a node."""
        return self.nearest(node, ast.stmt)

    def function(self, node: ast.AST) -> Function | ast.Lambda | None:
        """The function that contains a node; None at the top level of the file."""
        for above in self.above(node):
            if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                return above
        return None

    def scope(self, node: ast.AST) -> Function | ast.Module:
        """The function, or the module, whose local names the node sees."""
        found = self.function(node)
        while isinstance(found, ast.Lambda):
            found = self.function(found)
        return found or self.tree

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The class whose method contains the node."""
        return next((above for above in self.above(node) if isinstance(above, ast.ClassDef)), None)

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of statements that contains this one."""
        parent = self.parents[statement]
        for name in ("body", "orelse", "finalbody", "handlers"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and statement in block:
                return block
        return [statement]

    def loops(self, node: ast.AST) -> list[Loop]:
        """The loops of its own function that repeat the node, innermost first."""
        found: list[Loop] = []
        child = node
        for above in self.above(node):
            if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                break
            if isinstance(above, ast.For | ast.AsyncFor | ast.While) and child in above.body:
                found.append(above)
            child = above
        return found

    def names(self, scope: ast.AST) -> set[str]:
        """All names that occur in a scope. A new name must differ from them."""
        found = {node.id for node in ast.walk(scope) if isinstance(node, ast.Name)}
        return found | {node.arg for node in ast.walk(scope) if isinstance(node, ast.arg)}

    def fresh_name(self, statement: ast.stmt, *wanted: str) -> str:
        """A name that the function of the statement does not use: one of those wanted, or the last with a number."""
        used = self.names(self.scope(statement))
        return next(name for name in (*wanted, *(f"{wanted[-1]}{n}" for n in range(99))) if name not in used)

    def module_name(self, module: str) -> str | None:
        """The name under which this file imports a module (`torch`); None if it does not."""
        for node in self.tree.body:
            if isinstance(node, ast.Import):
                for item in node.names:
                    if item.name == module:
                        return item.asname or item.name
                    if item.asname is None and item.name.startswith(module + "."):
                        return module
        return None

    def importing(self, module: str) -> list[Edit]:
        """The edits that import a module: none if the file imports it already, else one at the file's imports."""
        return [] if self.module_name(module) else [self._new_import(f"import {module}")]

    def _new_import(self, text: str) -> Edit:
        imports = [node for node in self.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        regular = [node for node in imports if not (isinstance(node, ast.ImportFrom) and node.module == "__future__")]
        if regular and self.begins_line(regular[0]):
            first = regular[0]
            stands_alone = isinstance(first, ast.Import) and _is_standard(first.names[0].name)
            start = self._starts[first.lineno - 1]
            return Edit(start, start, f"{text}\n" if stands_alone or not _is_standard(text[7:]) else f"{text}\n\n")
        after = (imports[-1].end_lineno or 0) if imports else self._docstring_end()
        start = self._starts[min(after, len(self.lines))] if after else 0
        return Edit(start, start, f"\n{text}\n" if after else f"{text}\n")

    def _docstring_end(self) -> int:
        body = self.tree.body
        if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            return body[0].end_lineno or 0
        return next((i for i, line in enumerate(self.lines) if not line.startswith("#")), 0)


def _lines(node: ast.AST) -> tuple[int, float]:
    """The first and the last line of a node, its decorators included; all lines where it has no place of its own."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return _first_line(node), node.end_lineno or node.lineno
    first = getattr(node, "lineno", None)
    return (0, math.inf) if first is None else (first, node.end_lineno or first)  # type: ignore[attr-defined]


def _first_line(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", None)
    return min([statement.lineno, *(int(node.lineno) for node in decorators or ())])


def _is_standard(module: str) -> bool:
    import sys

    return module.split(".")[0] in sys.stdlib_module_names


def same(one: ast.AST, other: ast.AST) -> bool:
    """Have two expressions the same source, whatever their contexts?"""
    return ast.unparse(one) == ast.unparse(other)


def root_of(node: ast.expr) -> ast.expr:
    """`x` of `x[i].data.view(-1)[0]`: the expression without items, `.data` and method calls on it."""
    while True:
        part = isinstance(node, ast.Attribute) and method_has(node.attr, "view_attribute")
        if isinstance(node, ast.Subscript) or part:
            node = node.value  # type: ignore[attr-defined]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not is_library(node.func.value):
            node = node.func.value
        else:
            return node


def whole_of(node: _MaybeExpr) -> _MaybeExpr:
    """`x` of `x[i][j]`: what the items are taken from."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


LIBRARIES = {"torch", "F", "functional", "nn", "np", "numpy", "math", "init", "linalg", "special", "fft"}


def is_library(node: ast.expr) -> bool:
    """Is it `torch`, `F` or `torch.nn.functional`: the owner of functions, not a tensor?"""
    parts = ast.unparse(node).split(".") if isinstance(node, ast.Name | ast.Attribute) else []
    return bool(parts) and parts[0] != "self" and (parts[0] in LIBRARIES or parts[-1] in LIBRARIES)


def is_custom_operator(function: ast.expr) -> bool:
    """Is it `torch.ops.mine.scale_`: an operator that torch does not define? Only its schema says what it writes."""
    parts = ast.unparse(function).split(".") if isinstance(function, ast.Attribute) else []
    return parts[:2] == ["torch", "ops"] and parts[2:3] != ["aten"]
