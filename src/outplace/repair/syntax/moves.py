"""Moves whole statements: within their block, or out of a loop."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from outplace.repair.syntax.calls import called_names
from outplace.repair.syntax.code import Code, Function, Loop
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.flow import reads_any, targets_of

_LEAVE = ast.Return | ast.Raise | ast.Break | ast.Continue | ast.Yield | ast.YieldFrom | ast.Await


@dataclass(frozen=True)
class Move:
    """Statements of a block that go, in this order, before another statement of it or after it."""

    code: Code
    statements: Sequence[ast.stmt]
    target: ast.stmt
    after: bool = False

    @property
    def order(self) -> list[ast.stmt]:
        """The statements of the block in their new order."""
        rest = [item for item in self.code.block(self.target) if item not in self.statements]
        at = rest.index(self.target) + self.after
        return [*rest[:at], *self.statements, *rest[at:]]

    def keeps_values(self) -> bool:
        """Does each statement find the same values as before, as far as names and attributes show?"""
        old, new = ({item: n for n, item in enumerate(block)} for block in (self.code.block(self.target), self.order))
        return not any(
            _depend(item, other)
            for item in self.statements
            for other in old
            if (old[item] < old[other]) != (new[item] < new[other])
        )

    def edits(self, first: Sequence[str] = ()) -> list[Edit] | None:
        """The edits; None if a statement shares its line. A comment right above a statement goes with it.

        `first`: lines that go before the statements.
        """
        code, target = self.code, self.target
        free = ends_line(code, target) if self.after else code.begins_line(target)
        if not free or not all(whole_lines(code, item) for item in self.statements):
            return None
        edits, text = list[Edit](), list(first)
        for run in self._runs():
            start, end = _first_line(code, run[0]), run[-1].end_lineno or 0
            above = start - 1  # blank lines go along, if they would be too many where they are
            while above and not code.lines[above - 1].strip():
                above -= 1
            last = run[-1] is code.block(target)[-1]
            blank = above > 0 and above < start - 1 and (last or not "".join(code.lines[end : end + 1]).strip())
            lines = code.lines[start - 1 : end]
            text += lines if not blank else ["", *lines] if self.after else [*lines, ""]
            edits.append(_removed(code, above + 1 if blank else start, end))
        if self.after:
            return [*edits, pasted(code, target, text)]
        at = code.offset(_first_line(code, target), 0)
        return [*edits, Edit(at, at, "".join(f"{line}\n" for line in text))]

    def _runs(self) -> list[list[ast.stmt]]:
        """The statements, those together that stand next to each other."""
        block = self.code.block(self.target)
        runs: list[list[ast.stmt]] = []
        for item in self.statements:
            if runs and block.index(runs[-1][-1]) + 1 == block.index(item):
                runs[-1].append(item)
            else:
                runs.append([item])
        return runs


def _first_line(code: Code, statement: ast.stmt) -> int:
    """The first line of the comment right above a statement, or its own."""
    block = code.block(statement)
    place = block.index(statement)
    before = (block[place - 1].end_lineno or 0) if place else 0
    first = statement.lineno
    while first - 1 > before and code.lines[first - 2].strip().startswith("#"):
        first -= 1
    return first


def _removed(code: Code, first: int, last: int) -> Edit:
    """Removes lines."""
    if first == 1:
        return Edit(0, code.offset(last + 1, 0), "")
    return Edit(code.line_end(first - 1), code.line_end(last), "")


def split_loop(
    code: Code,
    loop: Loop,
    parts: Sequence[Sequence[ast.stmt]],
    again: Sequence[ast.stmt] = (),
    changed: Mapping[ast.stmt, str] | None = None,
) -> list[Edit]:
    """Puts neighbouring statements of a loop after it, part by part.

    A part that reads the items of the loop gets a loop of its own, which repeats the statements in `again`. Others run
    once. `changed`: new texts of single statements.
    """
    lines: list[str] = []
    deeper = len(code.indent(loop.body[0])) - len(code.indent(loop))
    names = {name for item in (loop, *again) for name in names_bound(item)}
    for part in parts:
        text = [line for item in part for line in (changed or {}).get(item, "").splitlines() or text_of(code, [item])]
        if reads_any(part, names):
            lines += [*_head(code, loop), *text_of(code, again), *text]
        else:
            lines += [line[deeper:] if line.strip() else line for line in text]
    first, last = parts[0][0], parts[-1][-1]
    start = code.offset(loop.lineno if first is loop.body[0] else first.lineno, 0)
    if last is loop.body[-1]:
        return [Edit(start, end_of(code, last), "\n".join(lines))]
    return [Edit(start, code.offset((last.end_lineno or 0) + 1, 0), ""), pasted(code, loop, lines)]


def _head(code: Code, loop: Loop) -> list[str]:
    head = code.lines[loop.lineno - 1 : loop.body[0].lineno - 1]
    while head[-1].strip().startswith("#") or not head[-1].strip():
        head.pop()
    return head


# -- names -------------------------------------------------------------------------------------------------------------


def names_bound(statement: ast.stmt) -> list[str]:
    """The names that the statement itself binds."""
    return [node.id for target in targets_of(statement) for node in ast.walk(target) if isinstance(node, ast.Name)]


def names_bound_within(statement: ast.stmt) -> list[str]:
    """The names that the statement and the statements inside it bind."""
    return [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def binds_within(statement: ast.stmt, name: str) -> bool:
    """Is a name bound or deleted anywhere inside?"""
    return name in bound([statement])


def used(statements: Iterable[ast.AST]) -> set[str]:
    """The names and attributes that are read or bound."""
    return {path for path, _ in _paths(statements)}


def bound(statements: Iterable[ast.AST]) -> set[str]:
    """The names and attributes that are bound or deleted."""
    return {path for path, context in _paths(statements) if not isinstance(context, ast.Load)}


def _read(statements: Iterable[ast.AST]) -> set[str]:
    return {path for path, context in _paths(statements) if isinstance(context, ast.Load)}


def _paths(statements: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr_context]]:
    for node in (node for statement in statements for node in ast.walk(statement)):
        if isinstance(node, ast.Name):
            yield node.id, node.ctx
        elif isinstance(node, ast.Attribute):
            yield ast.unparse(node), node.ctx


def _depend(moved: ast.stmt, other: ast.stmt) -> bool:
    """Does one bind what the other uses, or may one leave the block? A plain assignment may pass a way out."""
    if bound([moved]) & used([other]) or bound([other]) & used([moved]):
        return True
    return _leaves(moved) or (_leaves(other) and not isinstance(moved, ast.Assign))


def _leaves(statement: ast.stmt) -> bool:
    return any(isinstance(node, _LEAVE) for node in ast.walk(statement))


def needed(backward: ast.stmt, between: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements that compute the loss, and those that clear its gradients."""
    names, found = _read([backward]), list[ast.stmt]()
    for item in reversed(between):
        if bound([item]) & names or "zero_grad" in called_names(item):
            found.insert(0, item)
            names |= _read([item])
    return found


def simple_statements(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements, those inside loops, branches and other blocks instead of these; without functions."""
    for statement in statements:
        if isinstance(statement, Function | ast.ClassDef):
            continue
        blocks = [getattr(statement, field, []) for field in ("body", "orelse", "finalbody")]
        blocks += [handler.body for handler in getattr(statement, "handlers", [])]
        if not any(blocks):
            yield statement
        for block in blocks:
            yield from simple_statements(block)


# -- lines -------------------------------------------------------------------------------------------------------------


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
    return _removed(code, statement.lineno, statement.end_lineno or statement.lineno)


def text_of(code: Code, statements: Iterable[ast.stmt]) -> list[str]:
    """The lines of statements."""
    return [line for statement in statements for line in code.lines[statement.lineno - 1 : statement.end_lineno]]


def end_of(code: Code, statement: ast.stmt) -> int:
    """The end of a statement's last line."""
    return code.line_end(statement.end_lineno or statement.lineno)


def ends_line(code: Code, statement: ast.stmt) -> bool:
    """Does nothing but a comment follow in its last line?"""
    rest = code.lines[(statement.end_lineno or 1) - 1].encode()[statement.end_col_offset or 0 :].decode().strip()
    return not rest or rest.startswith("#")


def whole_lines(code: Code, statement: ast.stmt) -> bool:
    """Does it share no line with another statement?"""
    return code.begins_line(statement) and ends_line(code, statement)


def listed(names: Iterable[str]) -> str:
    """The names in a sentence: `a`, `b`."""
    return ", ".join(f"`{name}`" for name in names)
