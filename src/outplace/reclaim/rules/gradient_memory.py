"""Old gradients that live during the next forward: `zero_grad()` could come before it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from outplace.reclaim.observe.recording import Clearing, Recording
from outplace.reclaim.observe.timeline import Change, Life
from outplace.reclaim.rules.holders import node_at, site_of
from outplace.reclaim.rules.suggestion import Suggestion
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.files import Files

_USES_GRADIENTS = {"grad", "backward", "step", "zero_grad"}
_LEAVES = ast.Break | ast.Return | ast.Raise


class Gradients:
    """All suggestions of this kind for one recording."""

    def __init__(self, recording: Recording, files: Files) -> None:
        self._recording, self._files = recording, files

    def suggestions(self) -> Iterator[Suggestion]:
        """One suggestion for each `zero_grad()` after the forward in its loop or function."""
        if self._somebody_looks():
            return
        groups: dict[int, list[Clearing]] = {}
        for clearing in self._recording.clearings:
            groups.setdefault(clearing.place, []).append(clearing)
        for place, clearings in groups.items():
            instructions = self._recording.places[place]
            found = node_at(self._files, instructions[0]) if instructions else None
            statement = found[0].statement(found[1]) if found is not None else None
            if found is None or not isinstance(statement, ast.Expr) or statement.value is not found[1]:
                continue
            first = _first(found[0], statement)
            edits = _moved(found[0], statement, first) if first is not None else None
            if first is None or edits is None:
                continue
            lives = self._lives(found[0], statement, first, clearings)
            if lives:
                text = found[0].segment(statement)
                yield Suggestion(
                    "zero-grad",
                    site_of(found[0], statement),
                    text,
                    f"{text}  # before line {first.lineno}",
                    "nobody reads the old gradients after the step: they need not be there while the next forward runs",
                    {found[0].path: edits},
                    Change(lives=lives),
                )

    def _somebody_looks(self) -> bool:
        """Does any line of the program read a gradient, even a line that did not run?"""
        for code in self._files.codes(".grad"):
            for node in ast.walk(code.tree):
                named = isinstance(node, ast.Attribute) and node.attr == "grad"
                if named and not ast.unparse(node).endswith("autograd.grad"):
                    return True
        return False

    def _lives(self, code: Code, statement: ast.stmt, first: ast.stmt, clearings: list[Clearing]) -> dict[int, Life]:
        """The shorter lifetimes of the gradients; empty if something reads them in between."""
        lives: dict[int, Life] = {}
        before = 0
        for clearing in clearings:
            top = self._begins(code.path, first.lineno, statement.lineno, before, clearing.moment)
            if top is None or any(top <= backward.began < clearing.moment for backward in self._recording.backwards):
                return {}
            for number in clearing.storages:
                readers = self._recording.readers.get(number)
                born = self._recording.storages[number].born
                last = max(readers[-1] if readers else 0, born)
                if last >= top:
                    return {}
                lives[number] = (born, top - 1)
            before = clearing.moment
        return lives

    def _begins(self, path: str, first_line: int, end_line: int, start: int, end: int) -> int | None:
        """The first operation between two moments that these lines ran or called."""
        for number in range(start, min(end, len(self._recording.operations))):
            place = self._recording.places[self._recording.operations[number].place]
            if any(item[0] == path and first_line <= item[1] < end_line for item in place):
                return number
        return None


def _first(code: Code, statement: ast.stmt) -> ast.stmt | None:
    """The earliest statement that `zero_grad()` can move before; None if something in between must come first."""
    parent, block = code.parents.get(statement), code.block(statement)
    if not isinstance(parent, ast.For | ast.While | ast.FunctionDef) or block is not parent.body:
        return None
    between = block[: block.index(statement)]
    if isinstance(parent, ast.FunctionDef) and ast.get_docstring(parent, clean=False) is not None:
        between = between[1:]
    call = code.segment(statement)
    for node in (node for item in between for node in ast.walk(item)):
        uses = isinstance(node, ast.Attribute) and node.attr in _USES_GRADIENTS
        bound = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store)
        if uses or isinstance(node, _LEAVES) or (bound and call.startswith(f"{ast.unparse(node)}.")):
            return None
    return between[0] if between else None


def _moved(code: Code, statement: ast.stmt, first: ast.stmt) -> tuple[Edit, ...] | None:
    """Edits that move a statement before another."""
    put = code.before(first, code.segment(statement))
    start, end = code.span(statement)
    rest = re.compile(r"[ \t]*(;[ \t]*|\n)").match(code.text, end)
    if put is None or rest is None or first.lineno == statement.lineno:
        return None
    if rest.group(1) == "\n":
        if not code.begins_line(statement):
            return None
        start -= len(code.indent(statement))
    return _above_comments(code, put), Edit(start, rest.end(), "")


def _above_comments(code: Code, put: Edit) -> Edit:
    """The line above the comments of a statement."""
    start = put.start
    while (above := code.text.rfind("\n", 0, max(start - 1, 0)) + 1) < start:
        if not code.text[above:start].lstrip().startswith("#"):
            break
        start = above
    return Edit(start, start, put.text)
