"""Writes that nobody reports."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from outplace.model import Safety
from outplace.repair.facts.intent import is_leaf
from outplace.repair.forms import backward_first, recorded, silent, step_order
from outplace.repair.plan.bug import Bug, Candidate
from outplace.repair.plan.copies import copies_for_backward
from outplace.repair.plan.kinds.saved import saved
from outplace.repair.plan.location import Place
from outplace.repair.plan.out_of_place import rebinding
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.flow import used_later


def silent_data(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """The write recorded where its result is computed with; else a copy for the backward, or the backward first."""
    data = recorded.through_data(place)
    if data is not None and _may_be_recorded(place):
        made = recorded.new_tensor(place, data)
        if made is not None:
            title = f"Make a new `{place.path}`, which autograd records"
            yield Candidate(title, "safe", {place.code.path: tuple(made)}, keeps="values")
        if place.bug.cause == "unrecorded":
            return
    if recorded.adds_what_was_cut(place) and rebinding(place) != "no":
        return  # is what is added to be trained or not? If it is, a copy for the backward would hide that it is not
    yield from copies_for_backward(place)
    for moment in step_order.moments(place.files, place.bug):
        code = place.files.code(moment.file)
        earlier = backward_first.backward_first(code, moment) if code is not None and not moment.by_optimizer else None
        if earlier is not None:
            safety: Safety = "safe" if earlier.plain and not place.bug.from_run else "unsafe"
            edits = {moment.file: tuple(earlier.edits)}
            yield Candidate("Go backward before the write", safety, edits, provable=True, keeps="gradients")


def _may_be_recorded(place: Place) -> bool:
    """May a new tensor take the place of what is written? Where a run has not shown that it is computed with, only if
    it is read later, and by nobody under another name."""
    answer, path = rebinding(place), place.path or ""
    if is_leaf(place, path):
        return False  # what is trained is updated so
    if place.bug.cause == "unrecorded":
        return answer != "no"
    return answer == "yes" and ("." in path or used_later(place.code, place.statement, path))


def silent_alias(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """Memory of its own for the array or the tensor, or a copy for the backward."""
    if place.target is not None:
        for edits in silent.own_array(place.code, place.statement, place.target):
            yield place.candidate("Give the array memory of its own", "safe", edits)
    if place.bug.cause == "taken again":
        for edits in silent.own_parts(place.code):
            yield place.candidate("Give the tensor memory of its own", "unsafe", edits)
    if place.bug.cause in ("kept array", "handed out"):
        safety: Safety = "safe" if place.bug.from_run else "unsafe"
        handed_out = silent.handed_out(place)
        if handed_out:
            yield place.candidate("Hand out copies", safety, handed_out)
    if place.bug.cause == "kept array":
        kept = {home.path: tuple(edits) for home in place.files.codes("append") if (edits := silent.kept_arrays(home))}
        if kept:
            yield Candidate("Keep copies", safety, kept)
    own: dict[str, tuple[Edit, ...]] = {}
    for site, _ in place.bug.savers:
        code = place.files.code(site.file)
        node = code.at(site) if code is not None else None
        found = silent.own_tensors(code, node) if code is not None and node is not None else []
        own[site.file] = tuple(dict.fromkeys((*own.get(site.file, ()), *found)))
    if own and all(own.values()):
        yield Candidate("Give the tensor memory of its own", "safe", own)
    yield from copies_for_backward(place)


def silent_other(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """By the cause."""
    if place.bug.cause == "gradient":
        edits = silent.returned_gradient(place.code, place.node, place.statement)
        if edits is not None:
            yield place.candidate("Return a new gradient from the hook", "safe", edits)
    if place.bug.cause in ("state-dict", "lent state"):
        entry = place.target
        written = ast.unparse(entry.value) if isinstance(entry, ast.Subscript) else None
        for edits in silent.kept_state(place.code, written):
            title = "Keep a deep copy of the state" if place.bug.cause == "state-dict" else "Work on a deep copy"
            yield place.candidate(title, "safe", edits)
    if place.bug.cause == "recomputed":
        yield from saved(place, neighbours)
    yield from _kept(place)
    yield from _lost(place)
    yield from _held(place)


def _lost(place: Place) -> Iterator[Candidate]:
    """Gradients that nobody uses, or that two leaves share."""
    bug, code, statement = place.bug, place.code, place.statement
    if bug.cause == "shared gradient":
        edits = silent.own_gradient(code, statement)
        if edits is not None:
            yield place.candidate("Assign a copy of the gradient", "safe", edits)
    if bug.cause == "shallow":
        for edits in silent.deep_copies(code):  # one may be meant to follow the other: only a run shows that
            yield place.candidate("Make a deep copy", "safe" if bug.from_run else "unsafe", edits)
    if bug.cause == "lost":
        edits = silent.changed_parameter(code, statement)
        if edits is not None:  # only a run has shown that the new one has the shape of the old one
            yield place.candidate("Change the parameter itself", "safe" if bug.from_run else "unsafe", edits)
        line = bug.optimizer_line
        edits = silent.optimizer_later(code, statement, line) if line is not None else None
        if edits is not None:
            yield place.candidate("Make the optimizer afterwards", "safe", edits)


def _held(place: Place) -> Iterator[Candidate]:
    """One tensor where two were meant: memory of its own, or a new tensor, for one of them."""
    cause = place.bug.cause
    if cause == "own leaf":
        for edits in silent.own_leaves(place.code):
            yield place.candidate("Make the leaf of a copy", "safe" if place.bug.from_run else "unsafe", edits)
    if cause == "sample":
        found = {
            home.path: tuple(edits) for home in place.files.codes("__getitem__") if (edits := silent.samples(home))
        }
        if found:
            yield Candidate("Hand out copies of the samples", "safe" if place.bug.from_run else "unsafe", found)
    if cause == "undeclared":
        copied = silent.own_argument(place)
        if copied is not None:
            yield place.candidate("Write into a copy", "safe" if place.bug.from_run else "unsafe", copied)
    if cause in ("copied container", "other name"):
        rewritten = silent.new_tensor(place.code, place.statement)
        if rewritten is not None:
            yield place.candidate("Write out of place", "unsafe", rewritten)


def _kept(place: Place) -> Iterator[Candidate]:
    """What is kept by reference: a copy of it."""
    cause, code = place.bug.cause, place.code
    name = place.bug.tensor or place.path or ""
    if cause == "many":
        for edits in silent.own_entries(code):
            yield place.candidate("Make a tensor for each entry", "safe", edits)
    if cause in ("kept", "kept gradient"):
        for edits in silent.kept_copies(code, name):
            yield place.candidate("Append copies", "safe", edits)
    if cause in ("copy", "state-dict"):
        for edits in silent.kept_parameters(code):
            yield place.candidate("Keep copies of the parameters", "safe", edits)
    if cause == "ctx":
        for edits in silent.copied_in_ctx(code):
            yield place.candidate("Keep a copy for the backward", "safe", edits)
    written = place.target
    while isinstance(written, ast.Subscript):
        written = written.value
    if cause == "function gradient" and isinstance(written, ast.Name):
        edits = silent.copied_gradient(code, place.statement, written.id)
        yield place.candidate("Write a copy of the gradient", "safe", edits)
    if cause == "repeated":
        added = silent.accumulated(code, place.statement)
        if added is not None:
            yield place.candidate("Add for each index", "safe", added)
