"""Silent bugs: writes that raise no error."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from outplace.knowledge.silent_rules.gradients import HOOK_WRITES_GRADIENT
from outplace.knowledge.silent_rules.lists import NUMPY_BUFFER_REUSED
from outplace.knowledge.silent_rules.lost import DATA_WRITE_USED
from outplace.knowledge.silent_rules.two_names import PARAMETERS_BY_REFERENCE
from outplace.model import Safety
from outplace.repair.facts.bug import Bug, Candidate
from outplace.repair.facts.location import Place
from outplace.repair.forms import recorded, silent, step_order
from outplace.repair.plan.copies import copies_for_backward
from outplace.repair.plan.kinds.saved import saved
from outplace.repair.plan.out_of_place import rebinding
from outplace.repair.plan.own_memory import own_memory
from outplace.repair.syntax.code import Code, whole_of
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.flow import used_later

Neighbours = tuple[Bug, ...]


def silent_data(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """Records the write if its result is used; else makes a copy for the backward, or moves the backward first."""
    if place.bug.rule is not None and (place.bug.rule.form or place.bug.rule.no_fix):
        yield from by_rule(place, neighbours)
        return
    data = recorded.through_data(place)
    if data is not None and _may_be_recorded(place):
        new_value = recorded.new_tensor(place, data)
        if new_value is not None:
            title = f"Make a new `{place.path}`, which autograd records"
            yield Candidate(title, "safe", {place.code.path: tuple(new_value)}, keeps="values")
        if place.bug.rule is DATA_WRITE_USED:
            return
    if recorded.adds_what_was_cut(place) and rebinding(place) != "no":
        return  # it is unknown whether the added value is trained; if it is, a copy for the backward would hide the bug
    yield from copies_for_backward(place)
    for moment in step_order.moments(place.files, place.bug):
        code = place.files.code(moment.file)
        if code is None or moment.by_optimizer:
            continue
        for way in step_order.update_after_backward(code, moment, place.files):
            safety: Safety = "safe" if way.plain and not place.bug.from_run else "unsafe"
            edits = {moment.file: tuple(way.edits)}
            yield Candidate("Go backward before the write", safety, edits, provable=True, keeps=way.keeps)


def _may_be_recorded(place: Place) -> bool:
    """May a new tensor replace the written one?

    If no run has shown that it is used, only if it is read later, and under no other name.
    """
    answer, path = rebinding(place), place.path or ""
    if place.facts.leaf == "yes" and place.facts.requires_grad == "yes":
        return False  # this is how trained values are updated
    if place.bug.rule is DATA_WRITE_USED:
        return answer != "no"
    return answer == "yes" and ("." in path or used_later(place.code, place.statement, path))


def silent_alias(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """Gives the array or the tensor its own memory, or makes a copy for the backward."""
    if place.target is not None:
        for edits in silent.own_array(place.code, place.statement, place.target):
            yield place.candidate("Give the array memory of its own", "safe", edits)
    yield from by_rule(place, neighbours)
    own: dict[str, tuple[Edit, ...]] = {}
    for site, _ in place.bug.savers:
        code = place.files.code(site.file)
        node = code.at(site) if code is not None else None
        copies = silent.own_tensors(code, node) if code is not None and node is not None else []
        own[site.file] = tuple(dict.fromkeys((*own.get(site.file, ()), *copies)))
    if own and all(own.values()):
        yield Candidate("Give the tensor memory of its own", "safe", own)
    yield from copies_for_backward(place)


def by_rule(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """The form of the rule."""
    rule = place.bug.rule
    if rule is not None and rule.form:
        yield from FORMS[rule.form](place, rule.fix, neighbours)


# -- the forms ---------------------------------------------------------------------------------------------------------


def _unless_run(place: Place) -> Safety:
    """Safe after a run: only it shows that two tensors should be separate, or that the shapes agree."""
    return "safe" if place.bug.from_run else "unsafe"


def _files_with(place: Place, word: str, form: Callable[[Code], list[Edit]]) -> dict[str, tuple[Edit, ...]]:
    """The edits of all files that contain a word."""
    return {code.path: tuple(found) for code in place.files.codes(word) if (found := form(code))}


def _copied_gradient(place: Place, title: str, neighbours: Neighbours) -> Iterator[Candidate]:
    written = whole_of(place.target)
    if isinstance(written, ast.Name):
        yield place.candidate(title, "safe", silent.copied_gradient(place.code, place.statement, written.id))
    yield from FORMS["new_gradient"](place, HOOK_WRITES_GRADIENT.fix, neighbours)


def _kept_copies(place: Place) -> Iterator[list[Edit]]:
    written = ast.unparse(place.target) if place.target is not None else ""
    for name in dict.fromkeys([place.bug.tensor or place.path or "", written]):
        yield from silent.cloned_appends(place.code, name)


def _own_expanded(place: Place, title: str, _: Neighbours) -> Iterator[Candidate]:
    for candidate in own_memory(place):
        yield replace(candidate, title=title, safety=_unless_run(place))


def _kept_arrays(place: Place, title: str, neighbours: Neighbours) -> Iterator[Candidate]:
    yield from FORMS["handed_out"](place, NUMPY_BUFFER_REUSED.fix, neighbours)
    edits = _files_with(place, "append", silent.copied_arrays)
    if edits:
        yield Candidate(title, _unless_run(place), edits)


def _kept_state(place: Place) -> list[list[Edit]]:
    entry = place.target
    written = ast.unparse(entry.value) if isinstance(entry, ast.Subscript) else None
    return silent.copied_state_dicts(place.code, written)


def _kept_state_or_items(place: Place, title: str, neighbours: Neighbours) -> Iterator[Candidate]:
    yield from FORMS["kept_state"](place, title, neighbours)
    yield from FORMS["kept_parameters"](place, PARAMETERS_BY_REFERENCE.fix, neighbours)


def _own_samples(place: Place, title: str, _: Neighbours) -> Iterator[Candidate]:
    edits = _files_with(place, "__getitem__", silent.copied_samples)
    if edits:
        yield Candidate(title, _unless_run(place), edits)


def _as_if_saved(place: Place, title: str, neighbours: Neighbours) -> Iterator[Candidate]:
    yield from saved(place, neighbours)


def _same_parameter(place: Place, title: str, _: Neighbours) -> Iterator[Candidate]:
    edits = silent.changed_parameter(place.code, place.statement)
    if edits is not None:
        yield place.candidate(title, _unless_run(place), edits)
    known = place.bug.optimizer_line
    for line in [known] if known is not None else silent.made_of_parameters(place.code, place.statement):
        edits = silent.optimizer_later(place.code, place.statement, line)
        if edits is not None:
            yield place.candidate("Make the optimizer afterwards", _unless_run(place), edits)


_Form = Callable[[Place, str, Neighbours], Iterator[Candidate]]


def _form(ways: Callable[[Place], Iterable[list[Edit] | None]], safety: Safety | None = "safe") -> _Form:
    """A form that gives edits of this file, and how safe they are; None: safe if a run has shown the bug."""

    def candidates(place: Place, title: str, _: Neighbours) -> Iterator[Candidate]:
        yield from (place.candidate(title, safety or _unless_run(place), edits) for edits in ways(place) if edits)

    return candidates


FORMS: dict[str, _Form] = {
    "added": _form(lambda place: [silent.accumulated(place.code, place.statement)]),
    "as_if_saved": _as_if_saved,
    "copied_gradient": _copied_gradient,
    "copied_in_ctx": _form(lambda place: silent.copied_in_ctx(place.code)),
    "deep_copy": _form(lambda place: silent.deep_copies(place.code), None),
    "detached_copy": _form(lambda place: [silent.detached_copy(place.code, place.statement, place.target)], None),
    "handed_out": _form(lambda place: [silent.copied_returns(place)], None),
    "kept_arrays": _kept_arrays,
    "kept_copies": _form(_kept_copies),
    "kept_parameters": _form(lambda place: silent.cloned_parameters(place.code)),
    "kept_state": _form(_kept_state),
    "kept_state_or_items": _kept_state_or_items,
    "new_gradient": _form(lambda place: [silent.returned_gradient(place.code, place.node, place.statement)]),
    "out_of_place": _form(lambda place: [silent.new_tensor(place.code, place.statement)], "unsafe"),
    "own_argument": _form(lambda place: [silent.own_argument(place)], None),
    "own_entries": _form(lambda place: silent.own_entries(place.code)),
    "own_expanded": _own_expanded,
    "own_gradient": _form(lambda place: [silent.own_gradient(place.code, place.statement)]),
    "own_leaf": _form(lambda place: silent.own_leaves(place.code), None),
    "own_parts": _form(lambda place: silent.own_parts(place.code), "unsafe"),
    "own_samples": _own_samples,
    "same_parameter": _same_parameter,
}
"""The forms, by their names in the rules. `data-write-used` is missing here: `silent_data` repairs it."""
