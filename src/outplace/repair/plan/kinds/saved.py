"""Writes to a tensor that backward needs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from outplace.repair.facts.bug import Bug, Candidate
from outplace.repair.facts.location import Place, place_at
from outplace.repair.forms import forward_hook, table
from outplace.repair.plan.copies import copies_for_backward
from outplace.repair.plan.out_of_place import copied_with_aliases, out_of_place, plain
from outplace.repair.syntax.flow import flat, used_later
from outplace.source.facts import LaterRead


def saved(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """Out of place if that is right, else a copy for the backward."""
    if _is_for_itself_or_callers(place):
        yield from (rewrite.candidate("unsafe") for rewrite in plain(place))
        yield from (replace(copy, safety="unsafe", provable=False) for copy in copies_for_backward(place))
        return
    output = forward_hook.returned_output(place)
    if output is not None:
        yield place.candidate("Return a new output from the hook", "safe", output)
    if place.style == "auto":
        yield from _stacked(place, neighbours)
    copies = list(copies_for_backward(place))
    reads_back = not place.whole and any(copy.operand.startswith(f"{place.path}[") for copy in copies[:1])
    if reads_back:
        yield from copies
    rewrites = list(out_of_place(place))
    yield from (rewrite for rewrite in rewrites if rewrite.safety == "safe")
    if not reads_back:
        yield from copies
    yield from (rewrite for rewrite in rewrites if rewrite.safety != "safe")
    yield from copied_with_aliases(place, copies[-1:])


def _stacked(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """A table that a loop fills and reads as a list, with the other tables of the same loop that fail."""
    loops = place.code.loops(place.statement)[:1]
    if not loops:
        return
    lines = range(loops[0].lineno, (loops[0].end_lineno or loops[0].lineno) + 1)
    near = [(bug, site) for bug in neighbours if bug.kind == "saved" for site in bug.writes if site.line in lines]
    others = [place_at(place.files, bug, site) for bug, site in near]
    beside = [other.statement for other in others if other is not None and other.code is place.code]
    writes = [place.statement, *(item for item in beside if place.code.loops(item)[:1] == loops)]
    found = table.as_lists(place.files, place.code, writes)
    if found is not None:
        names, here = " and ".join(f"`{name}`" for name in found.names), place.code.path
        title = f"Collect the entries of {names} in a list, and stack them after the loop"
        yield Candidate(title, "unsafe", {here: found.edits}, True, checking={here: found.checking})


def _is_for_itself_or_callers(place: Place) -> bool:
    """A function writes its argument and computes with it, and its caller reads the argument again.

    Is the caller meant to see the write? Only the author knows. The write to a state that a loop hands to each call is
    meant to be seen, and that of a function that returns its argument, as PyTorch's own functions do, or with others.
    """
    function = place.code.function(place.statement)
    if not isinstance(function, ast.FunctionDef) or place.path is None:
        return False
    arguments = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)} - {"self"}
    if place.path not in arguments or not used_later(place.code, place.statement, place.path):
        return False
    results = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]
    if any(ast.unparse(item) == place.path for result in results for item in flat([result])):
        return False
    return any(read.where == "caller" and not _is_carried(place, read) for read in place.facts.reads)


def _is_carried(place: Place, read: LaterRead) -> bool:
    """Does a loop read it in every iteration without rebinding it?"""
    code = place.files.code(read.file)
    loops = [node for node in ast.walk(code.tree) if isinstance(node, _LOOPS)] if code is not None else []
    around = [loop for loop in loops if loop.lineno <= read.line <= (loop.end_lineno or loop.lineno)]
    return any(not any(_is_bound(node, read.text) for node in ast.walk(loop)) for loop in around)


_LOOPS = ast.For | ast.While | ast.ListComp | ast.GeneratorExp


def _is_bound(node: ast.AST, path: str) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store) and ast.unparse(node) == path


def detached(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """Detaches a new tensor instead of the one in the graph."""
    yield from out_of_place(place)
