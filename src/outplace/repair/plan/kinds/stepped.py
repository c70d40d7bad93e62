"""Parameters are updated between a forward and its backward."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from outplace.knowledge.traits import draws, has, without_graph
from outplace.model import Safety
from outplace.repair.facts.bug import Bug, Candidate, Moment
from outplace.repair.facts.location import Place, place_at, target_of
from outplace.repair.forms import step_order, weight_copies
from outplace.repair.plan.copies import copies_for_backward
from outplace.repair.syntax.files import Files
from outplace.source.facts import Source

_FOLLOWED: frozenset[Source] = frozenset({"gradient", "gradient with graph", "network", "unknown"})
"""What weights are made of that may be moved along their gradients, or computed by a network."""


def stepped(files: Files, bug: Bug, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """Another order of steps, forwards and backwards, or a detach. A run must show what stays the same.

    Only two are safe: computing a loss, with everything it depends on, after the step of another loss; and moving an
    update that uses no gradient after the next backward.
    """
    alike = [bug, *(other for other in neighbours if other.kind == "stepped")]
    all_of_them = [item for other in alike for item in step_order.moments(files, other)]
    for moment in step_order.moments(files, bug):
        if any(_goes_before(other, moment) for other in all_of_them):
            continue  # weights that are swapped in and back: the first swap must wait
        code = files.code(moment.file)
        provable = bug.raised_at is not None
        seen = bug if provable else None
        ways = list(step_order.reorderings(code, moment, files, bug.intent, seen)) if code is not None else []
        for way in ways if provable else sorted(ways, key=lambda way: not way.plain):
            safety: Safety = "safe" if way.plain and not provable else "unsafe"
            yield Candidate(
                way.title, safety, {way.file or moment.file: tuple(way.edits)}, provable, way.keeps, intent=way.intent
            )
    if bug.raised_at is not None:
        for way in step_order.update_before_the_forward(files, bug):
            yield Candidate(way.title, "unsafe", {way.file or "": tuple(way.edits)}, True, way.keeps)


def _goes_before(other: Moment, moment: Moment) -> bool:
    """Is the other an earlier update by hand before the same backward?"""
    both_by_hand = not moment.by_optimizer and not other.by_optimizer
    same = (other.file, other.backward_line) == (moment.file, moment.backward_line)
    return both_by_hand and same and other.step_line < moment.step_line < moment.backward_line


def kept_weights(files: Files, bug: Bug) -> Iterator[Candidate]:
    """Weights that are averaged, scaled or swapped by hand. Backward may keep copies of the old ones.

    An update by gradients is a training step in the wrong order, so it is not one of these. Rows that are reassigned to
    something else must not get the gradients of their old values.
    """
    places = [place_at(files, bug, site) for site in bug.writes]
    if bug.moment is None and not bug.from_run and all(place is not None and place.target is None for place in places):
        yield from (candidate for place in places[:1] if place is not None for candidate in copies_for_backward(place))
        return  # `embedding(max_norm=...)` scales its rows in a forward: what was computed before keeps the old ones
    known = [place for place in places if place is not None and place.target is not None]
    by_hand = [place for place in known if "gradient" not in place.facts.sources]
    if not places or len(by_hand) < len(places) or any(map(_reinitialises_rows, by_hand)):
        return
    copies = [replace(copy, safety="unsafe", provable=True) for copy in copies_for_backward(by_hand[0])]
    of_modules = list(_of_modules(files, bug, by_hand))
    yield from [*copies, *of_modules] if bug.raised_at is not None else [*of_modules, *copies]


def _of_modules(files: Files, bug: Bug, writes: list[Place]) -> Iterator[Candidate]:
    """The module whose weights are written computes with copies of them, or what it returns is detached."""
    if any(place.facts.sources & _FOLLOWED or _follows_gradients(place) for place in writes):
        return  # the next loss is meant for the new ones, or its gradient is to go through the update
    inner, outer = weight_copies.module_calls(files, bug)
    sure = bug.raised_at is None and bug.moment is None and all(place.facts.is_known for place in writes)
    sure = sure and weight_copies.only_compute(files, inner)
    both = list(filter(None, [outer, inner] if outer != inner and not sure else [inner]))
    may_be_trained = any(place.facts.trained or place.facts.from_caller for place in writes)
    for calls in both if not may_be_trained else ():
        title = f"Detach the result of {weight_copies.named(calls)}, whose weights no optimizer trains"
        yield Candidate(title, "unsafe", weight_copies.detached(calls), bug.raised_at is not None, "steps")
    for calls in both:
        title = f"Let {weight_copies.named(calls)} compute with copies of its weights, which are written later"
        yield Candidate(title, "safe" if sure else "unsafe", weight_copies.with_copies(calls), not sure)


def _follows_gradients(place: Place) -> bool:
    """Has another statement moved the same weights along gradients before?"""
    codes = {code.path: code for code in map(place.files.code, place.files.paths) if code is not None}
    found = ((codes[span.file], codes[span.file].expression(*span[1:])) for span in place.trail if span.file in codes)
    for code, node in found:
        statement = code.statement(node) if node is not None else None
        written = target_of(statement) if isinstance(statement, ast.AugAssign | ast.Expr) else None
        if statement is None or written is None or node is None or node not in ast.walk(written):
            continue
        if Place(place.files, code, place.bug, statement, statement).facts.sources & _FOLLOWED:
            return True
    return False


def _reinitialises_rows(place: Place) -> bool:
    """`table[rows] = torch.randn(...)`: are rows initialised again, without their old values?"""
    write, target = place.statement, place.target
    if isinstance(write, ast.Assign):
        parts = [item for item in write.targets if isinstance(item, ast.Subscript)]
        called = {node.func.attr for node in ast.walk(write.value) if _is_method(node)}  # type: ignore[attr-defined]
        begun_anew = any(draws(name) or name in ("empty", "new_empty") for name in called)
        return begun_anew and any(not _depends_on(write.value, ast.unparse(part.value)) for part in parts)
    methods = [node.attr for node in ast.walk(write) if isinstance(node, ast.Attribute)]
    return isinstance(target, ast.Subscript) and any(draws(name) and has(name, "replaces") for name in methods)


def _is_method(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)


def _depends_on(value: ast.expr, path: str) -> bool:
    """Does it depend on this tensor, and not only on its shape?"""
    about = [node.value for node in ast.walk(value) if isinstance(node, ast.Attribute) and without_graph(node.attr)]
    return any(
        ast.unparse(node) == path and node not in about for node in ast.walk(value) if isinstance(node, ast.expr)
    )
