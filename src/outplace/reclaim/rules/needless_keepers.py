"""Memory that stays alive without need: names after their last use, retained graphs, running totals."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from outplace.reclaim.observe.recording import Backward, Held, Recording, Sum
from outplace.reclaim.observe.timeline import Change, Life
from outplace.reclaim.rules.holders import node_at, site_of
from outplace.reclaim.rules.suggestion import Suggestion
from outplace.repair.forms.out_argument import without_keyword
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import Edit, apply
from outplace.repair.syntax.files import Files

_SEES_ALL = {"locals", "globals", "vars", "eval", "exec"}
_KEEPING = {"append", "appendleft", "add", "insert", "extend", "setdefault", "update", "put"}
"""Methods of containers that keep what they are given."""
_HOLDING = ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.Return | ast.Yield | ast.Dict | ast.Set | ast.Starred


class Keepers:
    """All suggestions of this kind for one recording."""

    def __init__(self, recording: Recording, files: Files) -> None:
        self._recording, self._files = recording, files
        self._names_of: dict[tuple[int, int], set[str]] = {}
        for held in recording.held:
            self._names_of.setdefault((held.storage, held.moment), set()).add(held.name)
        self._visited: dict[int, list[int]] = {}
        for number, backward in enumerate(recording.backwards):
            for node in backward.nodes:
                self._visited.setdefault(node, []).append(number)

    def suggestions(self) -> Iterator[Suggestion]:
        """All suggestions."""
        yield from self._names()
        yield from self._retained()
        yield from self._totals()

    def _last_read(self, storage: int) -> int:
        readers = self._recording.readers.get(storage)
        return max(readers[-1] if readers else 0, self._recording.storages[storage].born)

    # -- names --------------------------------------------------------------------------------------------------------

    def _names(self) -> Iterator[Suggestion]:
        """Names that hold large tensors after their last use; one `del` for each place."""
        groups: dict[tuple[str, int, str], list[Held]] = {}
        for held in self._recording.held:
            file = self._recording.places[held.place][0][0]
            groups.setdefault((file, held.function, held.name), []).append(held)
        places: dict[ast.stmt, tuple[Code, ast.stmt, dict[str, dict[int, Life]]]] = {}
        for (_, _, name), uses in groups.items():
            lives = self._idle(uses)
            found = node_at(self._files, self._recording.places[uses[0].place][0]) if lives else None
            place = _last_use(found[0], found[1], name) if found is not None else None
            if found is not None and place is not None and place[1] + 1 < len(place[0]):
                block, index = place
                ended = {
                    number: (born, self._end(found[0], block[index], last)) for number, (born, last) in lives.items()
                }
                places.setdefault(block[index + 1], (found[0], block[index], {}))[2][name] = ended
        for following, (code, last, names) in places.items():
            if not code.begins_line(following):
                continue
            start = code.offset((last.end_lineno or last.lineno) + 1, 0)  # before what is said about the next lines
            edit = Edit(start, start, f"{code.indent(last)}del {', '.join(names)}\n")
            are, them = ("is", "it") if len(names) == 1 else ("are", "them")
            yield Suggestion(
                "del",
                site_of(code, last),
                _first_line(code, last),
                f"del {', '.join(names)}",
                f"{' and '.join(names)} {are} not used after this line, and no node of the graph keeps {them}",
                {code.path: (edit,)},
                Change(lives={number: life for lives in names.values() for number, life in lives.items()}),
            )

    def _end(self, code: Code, statement: ast.stmt, number: int) -> int:
        """The last operation of a statement's run that contains this operation."""
        lines = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
        for following in range(number + 1, len(self._recording.operations)):
            place = self._recording.places[self._recording.operations[following].place]
            if not any(file == code.path and line in lines for file, line, *_ in place):
                return following - 1
        return self._recording.last

    def _idle(self, uses: list[Held]) -> dict[int, Life]:
        """The shorter lifetimes of what the name held; empty if it was needed until the end."""
        lives: dict[int, Life] = {}
        for held in uses:
            storage = self._recording.storages[held.storage]
            last = self._last_read(held.storage)
            if held.moment <= last or storage.maker is None or held.storage in self._recording.savers:
                continue
            if self._names_of.get((held.storage, held.moment)) == {held.name}:
                lives[held.storage] = (storage.born, last)
        return lives

    # -- graphs -------------------------------------------------------------------------------------------------------

    def _retained(self) -> Iterator[Suggestion]:
        """`backward(retain_graph=True)` without a second backward."""
        groups: dict[int, list[int]] = {}
        for number, backward in enumerate(self._recording.backwards):
            groups.setdefault(backward.place, []).append(number)
        for place, numbers in groups.items():
            backwards = [self._recording.backwards[number] for number in numbers]
            if not all(b.retain for b in backwards) or any(self._again(number) for number in numbers):
                continue
            if len(numbers) < 2 and not self._recording.ended:
                continue
            found = node_at(self._files, self._recording.places[place][0]) if self._recording.places[place] else None
            if found is None or not isinstance(found[1], ast.Call):
                continue
            code, call = found[0], found[1]
            keyword = next((k for k in call.keywords if k.arg == "retain_graph"), None)
            if keyword is None or not isinstance(keyword.value, ast.Constant) or keyword.value.value is not True:
                continue
            edit = without_keyword(code, call, keyword)
            before, start = code.segment(call), code.span(call)[0]
            after = before[: edit.start - start] + before[edit.end - start :]
            because = "no second backward goes through this graph; without it what it keeps is freed as backward goes"
            lives = {s: life for backward in backwards for s, life in self._freed(backward).items()}
            yield Suggestion(
                "retain-graph", site_of(code, call), before, after, because, {code.path: (edit,)}, Change(lives=lives)
            )

    def _again(self, number: int) -> bool:
        return any(later > number for node in self._recording.backwards[number].nodes for later in self._visited[node])

    def _freed(self, backward: Backward) -> dict[int, Life]:
        """Lifetimes that end when backward has run the last node that saved the storage."""
        nodes = set(backward.nodes)
        left = {
            operation.node: number
            for number, operation in enumerate(self._recording.operations[: backward.ended + 1])
            if operation.backward
        }
        lives: dict[int, Life] = {}
        for saved in self._recording.saved:
            storage = self._recording.storages[saved.storage]
            others = {saver.node for saver in self._recording.savers[saved.storage]} - nodes
            if saved.node in nodes and not others and storage.maker is not None:
                keepers = (saver.node for saver in self._recording.savers[saved.storage])
                ended = max(left.get(node, backward.ended) for node in keepers)
                lives[saved.storage] = (storage.born, max(ended, self._last_read(saved.storage)))
        return lives

    def _totals(self) -> Iterator[Suggestion]:
        """`total += loss` that keeps the graph of every loss."""
        groups: dict[int, list[Sum]] = {}
        for item in self._recording.sums:
            groups.setdefault(self._recording.operations[item.operation].place, []).append(item)
        for place, sums in groups.items():
            if any(self._is_for_backward(item) for item in sums):
                continue
            found = node_at(self._files, self._recording.places[place][0])
            statement = found[0].statement(found[1]) if found is not None else None
            if found is None or not isinstance(statement, ast.AugAssign):
                continue
            code, value = found[0], statement.value
            first, last = code.span(value)
            plain = isinstance(value, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
            edits = (
                [Edit(last, last, ".detach()")] if plain else [Edit(first, first, "("), Edit(last, last, ").detach()")]
            )
            lives = self._until_let_go(sums, named=isinstance(value, ast.Name))
            before = code.segment(statement)
            start = code.span(statement)[0]
            whole = apply(before, [Edit(edit.start - start, edit.end - start, edit.text) for edit in edits])
            because = "no backward ever goes through the total; with its graph it keeps every activation it came from"
            yield Suggestion(
                "detach",
                site_of(code, statement),
                before,
                whole,
                because,
                {code.path: tuple(edits)},
                Change(lives=lives),
            )

    def _until_let_go(self, sums: list[Sum], named: bool) -> dict[int, Life]:
        """Lifetimes without the sum: they end at once, or when the name of the added value is rebound."""
        lives: dict[int, Life] = {}
        for one, following in zip(sums, [*sums[1:], None], strict=True):
            end = one.operation
            if named:
                end = following.operation - 1 if following is not None else self._recording.last
            for number in one.storages:
                storage = self._recording.storages[number]
                if storage.maker is not None:
                    lives[number] = (storage.born, max(self._last_read(number), end))
        return lives

    def _is_for_backward(self, one: Sum) -> bool:
        """Did a backward start from the total, or may one?"""
        node = self._recording.operations[one.operation].node
        if node in self._visited:
            return True
        freed = any(
            not self._recording.backwards[number].retain for node in one.nodes for number in self._visited.get(node, ())
        )
        return not (self._recording.ended or freed)


def _last_use(code: Code, node: ast.AST, name: str) -> tuple[list[ast.stmt], int] | None:
    """The block that binds the name, and the index of the last statement that uses it.

    None unless all uses are in that block, nothing else can hold or read the value, and a statement may follow.
    """
    scope = code.scope(node)
    uses = _uses(code, scope, name)
    if _may_be_used_unseen(code, scope, name, uses) or any(_gives_away(code, use) for use in uses):
        return None
    binding = _binding(code, name, uses)
    if binding is None:
        return None
    block = code.block(binding)
    indices = [index for use in uses if (index := _index_in(block, use)) is not None]
    if len(indices) < len(uses) or min(indices) != block.index(binding):
        return None
    last = max(indices)
    leaves = isinstance(block[last], ast.Return | ast.Raise | ast.Break | ast.Continue)
    return None if leaves else (block, last)


def _uses(code: Code, scope: ast.AST, name: str) -> list[ast.Name]:
    """Where a scope uses its name. Functions inside it that bind the same name have one of their own."""
    everywhere = [found for found in _names_in(scope) if found.id == name]
    other_scopes = {code.scope(found) for found in everywhere if isinstance(found.ctx, ast.Store)} - {scope}
    return [found for found in everywhere if code.scope(found) not in other_scopes]


def _may_be_used_unseen(code: Code, scope: ast.AST, name: str, uses: list[ast.Name]) -> bool:
    """May `locals()` and the like, a `global` statement, or code that runs later use the name?"""
    begin = min((use.lineno for use in uses), default=0)
    return (
        any(
            seeing.lineno >= begin or code.scope(seeing) is not scope or code.loops(seeing)
            for seeing in _names_in(scope)
            if seeing.id in _SEES_ALL
        )
        or any(isinstance(n, ast.Global | ast.Nonlocal) and name in n.names for n in ast.walk(code.tree))
        or any(code.scope(use) is not scope or _in_inner(code, use, scope) for use in uses)
    )


def _gives_away(code: Code, use: ast.Name) -> bool:
    """Does this use delete the name already, or hand its value to something else that holds it?"""
    return isinstance(use.ctx, ast.Del) or _is_handed_on(code, use)


def _binding(code: Code, name: str, uses: list[ast.Name]) -> ast.Assign | None:
    """The first assignment to a name, if it binds plain names and does not itself read the name."""
    stores = [use for use in uses if isinstance(use.ctx, ast.Store)]
    first = code.statement(stores[0]) if stores and name != "_" else None
    if not isinstance(first, ast.Assign) or not all(_is_of_names(target) for target in first.targets):
        return None
    return None if any(read.id == name for read in _names_in(first.value)) else first


def _index_in(block: list[ast.stmt], node: ast.AST) -> int | None:
    """The index of the statement that contains a node; None if no statement of the block does."""
    return next((index for index, statement in enumerate(block) if node in set(ast.walk(statement))), None)


def _is_of_names(target: ast.expr) -> bool:
    """Is it `x`, or `x, y`?"""
    if isinstance(target, ast.Tuple):
        return all(isinstance(part, ast.Name) for part in target.elts)
    return isinstance(target, ast.Name)


def _is_handed_on(code: Code, name: ast.Name) -> bool:
    """Does something else hold the value from here on: another name, an attribute, a container, the caller?"""
    parent = code.parents.get(name)
    if isinstance(name.ctx, ast.Store):
        return False
    if isinstance(parent, ast.List | ast.Tuple):  # `torch.cat([a, b])` only reads them
        return not isinstance(code.parents.get(parent), ast.Call)
    if isinstance(parent, ast.Call) and name in parent.args:
        return isinstance(parent.func, ast.Attribute) and parent.func.attr in _KEEPING
    return isinstance(parent, _HOLDING)


def _in_inner(code: Code, node: ast.AST, scope: ast.AST) -> bool:
    """Is it inside a lambda or a comprehension, which may run later?"""
    for above in code.above(node):
        if above is scope:
            return False
        if isinstance(above, ast.Lambda | ast.GeneratorExp):
            return True
    return False


def _names_in(node: ast.AST) -> Iterator[ast.Name]:
    return (n for n in ast.walk(node) if isinstance(n, ast.Name))


def _first_line(code: Code, statement: ast.stmt) -> str:
    return code.lines[statement.lineno - 1].strip()
