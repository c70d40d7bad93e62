"""Writes to a leaf that requires grad, or to a view of one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from outplace.model import Safety
from outplace.repair.facts.aliases import calls_of, facts_of, only_name
from outplace.repair.facts.bug import Bug, Candidate
from outplace.repair.facts.callees import argument_of
from outplace.repair.facts.intent import intent_of
from outplace.repair.facts.location import Place, place_at, target_of
from outplace.repair.forms import no_grad
from outplace.repair.plan.out_of_place import is_whole, out_of_place, plain, rebinding
from outplace.repair.plan.own_memory import own_memory
from outplace.repair.syntax.calls import has_flag
from outplace.repair.syntax.flow import binds, read_later, used_later


def leaf(place: Place, neighbours: tuple[Bug, ...]) -> Iterator[Candidate]:
    """An update goes under no_grad. A step of the computation makes a new tensor."""
    if _flagged_for_its_result(place):
        yield from (rewrite.candidate("safe") for rewrite in plain(place))
        yield from own_memory(place)
        return
    if place.target is None:  # a module that was built with a flag
        if not _seen_changed(place):
            yield from out_of_place(place, trusting=True)
            yield from own_memory(place)
        return
    intent = intent_of(place)
    if intent != "update":
        safety: Safety = "safe" if intent == "value" else "unsafe"
        for rewrite in plain(place):
            if rebinding(place) != "no" or _only_leaf_elsewhere(place):
                yield rewrite.candidate(safety)
        if intent == "value":
            yield from own_memory(place)
    own = place.statement.value if isinstance(place.statement, ast.Expr) else place.statement
    if isinstance(own, ast.Call) and target_of(own) is None:
        return  # the write is only a part of the statement
    edits_under = no_grad.wrapped(place.code, _together(place, neighbours))
    if edits_under is not None:
        safety = "safe" if intent == "update" and not _may_be_no_leaf(place, neighbours) else "unsafe"
        update = place.candidate("Update the parameter outside the graph", safety, edits_under)
        yield replace(update, is_update=True)


def _flagged_for_its_result(place: Place) -> bool:
    """`w = F.relu(self.w, inplace=True)`: the flag is there to save memory, not to change a parameter.

    But if the parameter is read again below, or a caller does not use the result, the program expects it to be changed.
    """
    call = place.node
    if not isinstance(call, ast.Call) or is_whole(place.statement, call):
        return False
    subject = call.args[0] if call.args and (place.target is None or has_flag(call)) else None
    if not isinstance(subject, ast.Name | ast.Attribute):
        return False
    path = ast.unparse(subject)
    if _seen_changed(place) or _called_for_its_effect(place, path):
        return False
    return not read_later(place.code, place.statement, path)


def _seen_changed(place: Place) -> bool:
    """Does other code read what was written? Of a leaf only what this function reads, and not as an attribute."""
    return any(
        not read.leaf_written or (read.where == "here" and read.sure and not read.of_attribute)
        for read in place.facts.reads
    )


def _only_leaf_elsewhere(place: Place) -> bool:
    """Is this a local name for another object's parameter? The name may be rebound; the parameter must not change."""
    if not isinstance(place.holder, ast.Name):
        return False
    name = place.holder.id
    goes_on = binds(place.statement, name) or used_later(place.code, place.statement, name)
    here = goes_on and only_name(place.files, place.code, place.statement, name)
    return here and not _awaited_by_a_caller(place, name)


def _awaited_by_a_caller(place: Place, name: str) -> bool:
    """Does a caller use `scale(w)` to change `w`? Its result is not used, or `w` is read after the call."""
    if not isinstance(place.code.function(place.statement), ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    if _called_for_its_effect(place, name):
        return True
    facts = facts_of(place.files, place.code, place.statement, name)
    if any(path.startswith("self.") for path in facts.names):
        return False  # the function took the leaf from its own object, so no caller has given it to be changed
    return any(read.where == "caller" and not read.of_attribute for read in facts.reads)


def _called_for_its_effect(place: Place, name: str) -> bool:
    """`scale(w)`: is there a call that passes an argument for this name, and does not use the result?"""
    function = place.code.function(place.statement)
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    for home, call, bound in calls_of(place.files, place.code, function) or ():
        argument, own = argument_of(function, call, name, bound), home.statement(call)
        if argument is not None and own is not None and is_whole(own, call):
            return True
    return False


def _may_be_no_leaf(place: Place, neighbours: tuple[Bug, ...]) -> bool:
    """For an argument: is another leaf written as a step of the computation?

    Its repair makes it a non-leaf, and it may be the one that is passed here.
    """
    function = place.code.function(place.statement)
    parameters = (
        [node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)] if function is not None else []
    )
    if place.path not in parameters:
        return False
    others = [item for item in _other_leaves(place, neighbours) if item.code.function(item.statement) is not function]
    return any(intent_of(other) == "value" for other in others)


def _other_leaves(place: Place, neighbours: tuple[Bug, ...]) -> list[Place]:
    found = [place_at(place.files, bug, bug.writes[0]) for bug in neighbours if _is_of_leaf(bug)]
    return [other for other in found if other is not None]


def _is_of_leaf(bug: Bug) -> bool:
    return bug.kind in ("leaf", "leaf-view") and bool(bug.writes)


def _together(place: Place, neighbours: tuple[Bug, ...]) -> list[ast.stmt]:
    """The statement with the following ones that have the same bug."""
    block = place.code.block(place.statement)
    others = _other_leaves(place, neighbours)
    troubled = {other.statement for other in others if other.code is place.code and intent_of(other) == "update"}
    found = [place.statement]
    for later in block[block.index(place.statement) + 1 :]:
        if later not in troubled:
            break
        found.append(later)
    return found
