"""A new tensor instead of a written one: the plain rewrites, and whether another name needs the write."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from outplace.model import Safety
from outplace.repair.facts.aliases import facts_of_value, may_rebind
from outplace.repair.facts.bug import Candidate
from outplace.repair.facts.callees import runs_within
from outplace.repair.facts.location import Place
from outplace.repair.forms import augmented, inplace_flag, method, out_argument, subscript
from outplace.repair.syntax.calls import has_flag
from outplace.repair.syntax.code import Function
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.flow import read_later, used_later

Title = str


class Rewrite(NamedTuple):
    """A write out of place: edits by file. `once`: one is enough for all writes of a function."""

    title: Title
    edits: dict[str, tuple[Edit, ...]]
    once: bool = False

    def candidate(self, safety: Safety, provable: bool = False) -> Candidate:
        """The rewrite with its safety."""
        return Candidate(self.title, safety, self.edits, provable, once=self.once)


def plain(place: Place) -> Iterator[Rewrite]:
    """The writes out of place. This does not check whether another name needs the write."""
    here = place.code.path
    for title, edits in _plain_here(place):
        yield Rewrite(title, {here: tuple(edits)})
    for copy in _copies_of_the_whole(place):
        yield Rewrite(f"Write into a copy of `{place.path}`", {here: tuple(copy)}, once=True)
    call = place.node if isinstance(place.node, ast.Call) else None
    if call is not None and place.target is None:
        for home, constructor in inplace_flag.flags_behind(place.files, place.code, call):
            changes = {home.path: tuple(inplace_flag.dropped(home, constructor))}
            if is_whole(place.statement, call) and call.args:
                start = place.code.span(call)[0]
                bound = Edit(start, start, f"{place.code.segment(call.args[0])} = ")
                changes[here] = (*changes.get(here, ()), bound)
            yield Rewrite("Build the module without `inplace=True`", changes)


def _plain_here(place: Place) -> Iterator[tuple[Title, list[Edit]]]:
    code, node, statement = place.code, place.node, place.statement
    call = node.value if isinstance(node, ast.Expr) else node
    if isinstance(call, ast.Call) and (flag := inplace_flag.dropped(code, call)):
        if isinstance(statement, ast.Expr) and statement.value is call and place.target is not None:
            start = code.span(statement)[0]
            flag = [Edit(start, start, f"{code.segment(place.target)} = "), *flag]
        yield "Drop `inplace=True`", flag
        return
    if not place.whole:
        expression = subscript.as_expression(place)
        if expression is not None:
            yield expression
    elif isinstance(statement, ast.AugAssign):
        symbol = augmented.SYMBOLS[type(statement.op)]
        yield f"Write `{symbol}` out of place", augmented.out_of_place(code, statement)
    elif isinstance(call, ast.Call) and any(keyword.arg == "out" for keyword in call.keywords):
        edits = out_argument.out_of_place(code, call, statement)
        if edits is not None:
            yield "Bind the result instead of writing into `out=`", edits
    elif isinstance(call, ast.Call):
        edits = method.out_of_place(code, call, statement)
        if edits is not None:
            name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            yield f"Use `{name.removesuffix('_')}`, which makes a new tensor", edits


def _copies_of_the_whole(place: Place) -> Iterator[list[Edit]]:
    """`x = x.clone()` before a write to a part of `x`."""
    call = place.node.value if isinstance(place.node, ast.Expr) else place.node
    if place.whole or (isinstance(call, ast.Call) and inplace_flag.dropped(place.code, call)):
        return
    if place.style != "auto" and subscript.as_expression(place) is not None:
        return
    if _is_saved_inside(place):
        return
    for hoist in (True, False) if _saved_before_loops(place) else (False,):
        copy = subscript.into_a_copy(place, hoist)
        if copy is not None:
            yield copy


def is_whole(statement: ast.stmt, call: ast.Call) -> bool:
    """Is the call a statement of its own, whose result is not used?"""
    return isinstance(statement, ast.Expr) and statement.value is call


def _saved_before_loops(place: Place) -> bool:
    """Is one copy before the loops enough? Not if the loops save what they write."""
    if place.bug.kind != "saved":
        return True
    loops = place.code.loops(place.statement)
    inside = set(ast.walk(loops[-1])) if loops else set()
    scope = place.code.scope(place.statement)
    nodes = [place.code.at(site) if site.file == place.code.path else None for site, _ in place.bug.savers]
    return bool(nodes) and all(node and place.code.scope(node) is scope and node not in inside for node in nodes)


def _is_saved_inside(place: Place) -> bool:
    """Does the statement save the tensor itself, before it writes? A copy made before the statement comes too early."""
    if place.bug.kind != "saved":
        return False
    statement = place.statement
    for site, _ in place.bug.savers:
        code = place.files.code(site.file)
        node = code.at(site) if code is not None else None
        if code is None or node is None:
            continue
        function = code.function(node)
        if code is place.code and function is code.function(statement):
            if statement in (node, *code.above(node)):
                return True
        elif isinstance(function, Function) and runs_within(place.files, place.code, statement, code, function):
            return True
    return False


def rebinding(place: Place) -> str:
    """May the old tensor stay unchanged, and a new one be used from here on?"""
    call = place.node.value if isinstance(place.node, ast.Expr) else place.node
    if isinstance(call, ast.Call) and place.target is None:  # a module that was built with a flag
        return _argument(place, call)
    if isinstance(call, ast.Call) and has_flag(call):
        return _argument(place, call)
    if place.holder is None:  # `f(x).mul_(2)`: only the expression has it, or other code that must see the write
        if place.target is None:
            return "no"
        return "yes" if facts_of_value(place.files, place.code, place.target).may_rebind == "yes" else "no"
    return place.rebinding


def _argument(place: Place, call: ast.Call) -> str:
    subject = call.args[0] if call.args else None
    if isinstance(subject, ast.Name):
        if not is_whole(place.statement, call) and read_later(place.code, place.statement, subject.id):
            return "no"
        return may_rebind(place.files, place.code, place.statement, subject.id)
    return "yes" if isinstance(subject, ast.Call | ast.BinOp) else "no"


def _goes_on(place: Place) -> bool:
    """Is the written tensor used here? If not, the write is for the caller."""
    if place.path is not None:
        return used_later(place.code, place.statement, place.path)
    return isinstance(place.node, ast.Call) and not is_whole(place.statement, place.node)


def out_of_place(place: Place, trusting: bool = False) -> Iterator[Candidate]:
    """Plain rewrites. They are safe if no other code sees the write; else a proof decides, or there is none.

    `trusting` is for operations that PyTorch always refuses. No code can rely on what they write.
    """
    answer = rebinding(place)
    if answer == "unknown" and trusting and _goes_on(place):
        answer = "yes"
    if answer == "no":
        return
    for rewrite in plain(place):
        yield rewrite.candidate("safe") if answer == "yes" else rewrite.candidate("unsafe", provable=True)


def copied_with_aliases(place: Place, copies: Iterable[Candidate]) -> Iterator[Candidate]:
    """Other names in the function need the write, too: the function copies its argument before it makes them.

    What saves the tensor between the copy and the write then saves a copy of its own.
    """
    if place.path is None or not place.facts.reads or any(read.where != "here" for read in place.facts.reads):
        return
    found = subscript.copied_at_start(place)
    if found is None:
        return
    first, edits = found
    answer = may_rebind(place.files, place.code, first, place.path)
    if answer == "no":
        return
    title = f"Copy `{place.path}` at the start of the function"
    for more in [(), *(copy.edits[place.code.path] for copy in copies if set(copy.edits) == {place.code.path})]:
        yield place.candidate(title, "safe" if answer == "yes" else "unsafe", [*edits, *more], answer != "yes")
