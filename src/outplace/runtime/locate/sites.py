"""From recorded instructions to sites in the source: the file, the line, and the exact expression.

A mark knows its statement. An instruction knows its expression, through the positions that Python 3.11 and later keep.
The syntax tree of the file then gives the whole operation (`x.add_(1)`, `x[i] = v`, `h += y`) and its target.
"""

from __future__ import annotations

import ast
import linecache
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from types import FrameType
from typing import Any, NamedTuple, TypeGuard

from outplace.model import Site
from outplace.repair.syntax.code import Code
from outplace.runtime.instrument import STATEMENTS
from outplace.runtime.record.log import Instruction, Place
from outplace.runtime.record.user_files import known_sources


class Span(NamedTuple):
    """Lines from 1 and columns in UTF-8 bytes from 0, as in the syntax tree."""

    line: int
    end_line: int
    column: int
    end_column: int


@dataclass(frozen=True)
class Located:
    """A site with its syntax tree, and the node of the operation if it was found."""

    site: Site
    filename: str
    node: ast.AST | None
    statement: ast.stmt | None


class SourceTree:
    """The syntax tree of one file."""

    def __init__(self, filename: str) -> None:
        with known_sources():
            self.lines = linecache.getlines(filename)
        try:
            self.tree: ast.Module | None = ast.parse("".join(self.lines))
        except (SyntaxError, ValueError, RecursionError):
            self.tree = None

    def enclosing(self, span: Span) -> Iterator[ast.expr | ast.stmt]:
        """The nodes around a span, outermost first."""
        body: Iterable[ast.AST] = self.tree.body if self.tree else ()
        while True:
            inside = next((node for node in body if _contains(node, span)), None)
            if inside is None:
                return
            if isinstance(inside, ast.expr | ast.stmt):
                yield inside
            body = _children(inside)

    def text(self, span: Span) -> str:
        """The source between two positions."""
        lines = [line.rstrip("\n") for line in self.lines[span.line - 1 : span.end_line]]
        if not lines:
            return ""
        lines[-1] = lines[-1].encode()[: span.end_column].decode(errors="replace")
        lines[0] = lines[0].encode()[span.column :].decode(errors="replace")
        return "\n".join(lines).strip()


def _children(node: ast.AST) -> list[ast.AST]:
    """Child nodes; those without a position of their own are passed through."""
    children: list[ast.AST] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr | ast.stmt | ast.excepthandler):
            children.append(child)
        else:
            children.extend(_children(child))
    return children


def _contains(node: Any, span: Span) -> bool:
    starts = (node.lineno, node.col_offset) <= (span.line, span.column)
    return starts and (node.end_lineno, node.end_col_offset) >= (span.end_line, span.end_column)


@lru_cache(maxsize=64)
def source_tree(filename: str) -> SourceTree:
    """The tree of a file, read once."""
    return SourceTree(filename)


def full_path(filename: str) -> str:
    """The file's absolute path. The program may change its working folder before the path is read."""
    return filename if filename.startswith("<") else os.path.abspath(filename)


def span_of(node: ast.AST) -> Span:
    """The lines and columns of a node."""
    where: Any = node
    return Span(where.lineno, where.end_lineno, where.col_offset, where.end_col_offset)


def _characters(tree: SourceTree, line: int, column: int) -> int:
    """A column in characters, which people and reports count."""
    if not 0 < line <= len(tree.lines):
        return column
    return len(tree.lines[line - 1].encode()[:column].decode(errors="replace"))


def _site(filename: str, span: Span, function: str) -> Site:
    tree = source_tree(filename)
    column = _characters(tree, span.line, span.column)
    end_column = _characters(tree, span.end_line, span.end_column)
    return Site(full_path(filename), span.line, span.end_line, column, end_column, function, tree.text(span))


def site_of(filename: str, node: ast.AST, function: str) -> Site:
    """The site of a syntax node; for a block, its first line."""
    span = span_of(node)
    if isinstance(node, ast.stmt) and hasattr(node, "body"):
        first = source_tree(filename).lines[span.line - 1].rstrip()
        span = Span(span.line, span.line, span.column, len(first.encode()))
    return _site(filename, span, function)


@lru_cache(maxsize=1024)
def at_statement(number: int) -> Located:
    """The site of a mark."""
    marked = STATEMENTS[number]
    span = Span(marked.line, marked.end_line, marked.column, marked.end_column)
    around = list(source_tree(marked.file).enclosing(span))
    statement = next((node for node in reversed(around) if isinstance(node, ast.stmt)), None)
    site = _site(marked.file, span, marked.function)
    return Located(site, marked.file, around[-1] if around else None, statement)


def at_instruction(place: Instruction, operation: str | None = None) -> Located:
    """The site of an instruction, widened to its whole operation."""
    return _at_instruction(place, file_of(place), operation)


def file_of(place: Instruction | int | None) -> str | None:
    """The file of an instruction. Part of each cache's key: Python takes the same code in two files for equal."""
    return place[0].co_filename if isinstance(place, tuple) else None


@lru_cache(maxsize=1024)
def _at_instruction(place: Instruction, _: str | None, operation: str | None) -> Located:
    code, offset = place
    function = getattr(code, "co_qualname", code.co_name).replace("<locals>.", "")
    span = _position(code, offset)
    if span is None:
        line = _line_of(code, offset)
        return at_line(code.co_filename, line, function, operation)
    around = list(source_tree(code.co_filename).enclosing(span))
    statement = next((node for node in reversed(around) if isinstance(node, ast.stmt)), None)
    node = _operation_around(around)
    site = _site(code.co_filename, span if node is None else _own_span(node), function)
    return Located(site, code.co_filename, node, statement)


def _own_span(node: ast.AST) -> Span:
    """A call chain over several lines is at the line of its last method, as in Python's tracebacks."""
    whole = span_of(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        own = node.func.end_lineno or whole.line
        if own > whole.line:
            column = (node.func.end_col_offset or 0) - len(node.func.attr.encode())
            return Span(own, whole.end_line, column, whole.end_column)
    return whole


def _operation_around(around: list[ast.expr | ast.stmt]) -> ast.AST | None:
    """The innermost call or assignment. For a look-up of `x.add_`, its call; for `a * b`, just that expression."""
    if around and isinstance(around[-1], ast.BinOp | ast.UnaryOp | ast.Compare):
        return around[-1]
    for node in reversed(around):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Call | ast.Delete):
            return node
        if isinstance(node, ast.stmt):
            return around[-1] if isinstance(around[-1], ast.expr) else None
    return None


def _position(code: Any, offset: int) -> Span | None:
    if not hasattr(code, "co_positions"):
        return None
    line, end_line, column, end_column = next(islice(code.co_positions(), offset // 2, None), (None,) * 4)
    if line is None or end_line is None or column is None or end_column is None:
        return None
    return Span(line, end_line, column, end_column)


def _line_of(code: Any, offset: int) -> int:
    for start, end, line in code.co_lines():
        if start <= offset < end and line is not None:
            return int(line)
    return int(code.co_firstlineno)


def at_line(filename: str, line: int, function: str, operation: str | None = None) -> Located:
    """The site if only a line is known (Python 3.10, texts of torch.compile): its statement, or the call in it."""
    tree = source_tree(filename)
    text = tree.lines[line - 1] if 0 < line <= len(tree.lines) else ""
    start = len(text.encode()) - len(text.lstrip().encode())
    around = list(tree.enclosing(Span(line, line, start, start)))
    statement = next((node for node in reversed(around) if isinstance(node, ast.stmt)), None)
    if statement is None:
        site = _site(filename, Span(line, line, start, len(text.rstrip().encode())), function)
        return Located(site, filename, None, None)
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    named = [node for node in calls if _carries_out(node, operation)]
    if not named and isinstance(statement, ast.Expr) and statement.value in calls:
        named = calls  # if it is the only call
    node: ast.AST = named[0] if len(named) == 1 else statement
    return Located(_site(filename, _own_span(node), function), filename, node, statement)


def _carries_out(call: ast.Call, operation: str | None) -> bool:
    if operation == "out=":
        return any(keyword.arg == "out" for keyword in call.keywords)
    return isinstance(call.func, ast.Attribute) and call.func.attr == operation


def at_place(place: Place) -> Located | None:
    """The site at which nodes were made."""
    if place is None:
        return None
    return at_statement(place) if isinstance(place, int) else at_instruction(place)


@lru_cache(maxsize=16)
def code_of(filename: str) -> Code | None:
    """The file as `repair` reads it, if it can be read."""
    try:
        return Code(full_path(filename), "".join(source_tree(filename).lines))
    except (SyntaxError, ValueError, RecursionError):
        return None


def statement_of(frame: FrameType) -> tuple[Code, ast.stmt] | None:
    """The statement that a frame is executing, with the file as `repair` reads it."""
    code = code_of(frame.f_code.co_filename)
    if code is None:
        return None
    found = code.at(at_instruction((frame.f_code, frame.f_lasti)).site)
    statement = code.statement(found) if found is not None else None
    return (code, statement) if statement is not None else None


def narrowed(located: Located, candidates: list[ast.expr]) -> Located:
    """The same site, narrowed to the only candidate; unchanged if there are several."""
    if len(candidates) != 1 or located.statement is None:
        return located
    site = _site(located.filename, _own_span(candidates[0]), located.site.function)
    return Located(site, located.filename, candidates[0], located.statement)


def target_node(located: Located, operation: str) -> ast.expr | None:
    """The expression for the tensor that this operation writes."""
    node = located.node
    if isinstance(node, ast.AugAssign):
        if operation == "__setitem__" and isinstance(node.target, ast.Subscript):
            return node.target.value
        return node.target
    if isinstance(node, ast.Assign):
        written = [target for target in node.targets if _is_written(target)]
        return written[0].value if len(written) == 1 else None
    if isinstance(node, ast.Call):
        out = next((keyword.value for keyword in node.keywords if keyword.arg == "out"), None)
        if out is not None:
            return out
        if isinstance(node.func, ast.Attribute) and node.func.attr == operation and not _is_module(node.func.value):
            return start_of_chain(node.func.value)
        if node.args and not isinstance(node.args[0], ast.Starred) and not _hands_on(node.func):
            return node.args[0]
    return None


def _is_written(target: ast.expr) -> TypeGuard[ast.Subscript | ast.Attribute]:
    """Does an assignment to this target write a tensor: `x[i] = v`, `z.real = v`?"""
    return isinstance(target, ast.Subscript) or (isinstance(target, ast.Attribute) and target.attr in ("real", "imag"))


def start_of_chain(node: ast.expr) -> ast.expr:
    """`y` in `y.mul_(2).add_(1)`: writing methods return the tensor they wrote."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if not node.func.attr.endswith("_") or node.func.attr.endswith("__") or _is_module(node.func.value):
            break
        node = node.func.value
    return node


def complexity_of_name(node: ast.expr | None) -> int | None:
    """How simple this expression is as a name: 0 for `a.b`, 1 for `a[i]` and the like, None if it computes a value."""
    if isinstance(node, ast.Name):
        return 0
    if isinstance(node, ast.Attribute):
        return complexity_of_name(node.value)
    if isinstance(node, ast.Subscript):
        return None if complexity_of_name(node.value) is None else 1
    return None


def _hands_on(function: ast.expr) -> bool:
    """Is it `map` or the like, whose first argument is a function?"""
    return ast.unparse(function).split(".")[-1] in ("map", "reduce", "partial", "submit", "Thread")


def _is_module(node: ast.expr) -> bool:
    """Is this `torch`, `F` or `nn.functional`: the owner of a function, not a tensor with methods?"""
    if not isinstance(node, ast.Name | ast.Attribute):
        return False
    names = ast.unparse(node).split(".")
    return names[0] in ("torch", "nn", "F") or names[-1] in ("functional", "init")
