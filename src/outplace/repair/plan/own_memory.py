"""A copy where the written tensor comes from: `scores = convert(x).clone()`, and the write stays as it is.

The analysis has followed the memory: it knows which expressions returned it before the write. The copy goes to the
nearest one for which no other code must see the write.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice

from outplace.repair.facts.aliases import facts_of_value
from outplace.repair.facts.bug import Candidate
from outplace.repair.facts.location import Place
from outplace.repair.plan.copies import short
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import Edit
from outplace.source.facts import LaterRead, Span

_MOST_ASKED = 12
"""Expressions of one tensor that the analysis is asked about."""


def own_memory(place: Place) -> Iterator[Candidate]:
    """A copy for each tensor that is written here, all in one candidate."""
    edits: dict[str, list[Edit]] = {}
    copied: list[str] = []
    for trail in place.facts.trails:
        found = _nearest(place, trail)
        if found is None:
            return
        code, node = found
        here = edits.setdefault(code.path, [])
        if not set(code.cloned(node)) <= set(here):
            here += code.cloned(node)
            copied.append(short(code.segment(node)))
    if copied:
        what = " and ".join(f"`{text}`" for text in copied) if len(copied) < 3 else "what is written"
        yield Candidate(f"Write into a copy of {what}", "safe", {path: tuple(result) for path, result in edits.items()})


def _nearest(place: Place, trail: tuple[Span, ...]) -> tuple[Code, ast.expr] | None:
    """The latest expression of a trail that can be copied: no other code must see the write."""
    for code, node in islice(_sources(place, trail), _MOST_ASKED):
        facts = facts_of_value(place.files, code, node, until_written=True)
        elsewhere = [read for read in facts.reads if not (_is_for_a_value(place) and _is_of_another(read))]
        if not (facts.reached and facts.used) or facts.unclear or facts.from_caller or elsewhere:
            continue
        if facts.leaf != "no" and not facts.names:
            continue  # here the leaf is made: the program may ask it for its gradient
        if not facts.held or _is_for_a_value(place):
            return code, node
    return None


def _sources(place: Place, trail: tuple[Span, ...]) -> Iterator[tuple[Code, ast.expr]]:
    for span in reversed(trail):
        code = place.files.code(span.file)
        node = code.expression(*span[1:]) if code is not None else None
        if code is not None and node is not None and _is_passed_on(code, node) and not _is_target(place, code, node):
            yield code, node


def _is_passed_on(code: Code, node: ast.expr) -> bool:
    """Is it the value of an assignment, what a function returns, or an argument of a call?"""
    parent = code.parents.get(node)
    if isinstance(parent, ast.Assign | ast.AnnAssign | ast.Return | ast.NamedExpr | ast.keyword):
        return parent.value is node
    return isinstance(parent, ast.Call) and node in parent.args


def _is_target(place: Place, code: Code, node: ast.expr) -> bool:
    """Is it what the statement itself writes? A module that was built to write has no other target."""
    return code is place.code and place.target is not None and code.statement(node) is place.statement


def _is_for_a_value(place: Place) -> bool:
    """May a module or an optimizer hold the tensor? A write to a leaf that PyTorch refuses cannot have changed it."""
    return place.bug.kind in ("leaf", "leaf-view")


def _is_of_another(read: LaterRead) -> bool:
    """Is it the parameter itself, in another function? The one that copies may expect that it is changed."""
    return read.of_attribute and read.where != "here"
