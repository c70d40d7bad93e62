"""The intention of a write to a leaf: an update of the leaf itself, or a step of the computation."""

from __future__ import annotations

import ast
from typing import Literal

from outplace.repair.facts.location import Place
from outplace.repair.syntax.calls import called_name, has_flag
from outplace.repair.syntax.flow import (
    bindings,
    binds,
    own_parts,
    reads_any,
    used_later,
)
from outplace.source.heuristics import is_update_name

Intent = Literal["update", "value", "unknown"]


def intent_of(place: Place) -> Intent:
    """Decides by the written value, where it comes from, and how the tensor is used afterwards."""
    sources = place.facts.sources
    if "gradient" in sources or _ends_a_round(place):
        return "update"
    if isinstance(place.holder, ast.Subscript) or _is_flagged_for_its_result(place):
        return "value"
    if "trained" in sources:  # weights made of other weights are an update; the result of a network gets a gradient
        by_weights = "network" not in sources and not place.facts.in_forward
        return "update" if by_weights and place.path and "." in place.path else "value"
    # A value made of a leaf may belong to a step. An update would give the leaf the gradient of neither of its values,
    # if one graph uses both.
    may_be_a_step = "leaf" in sources or place.facts.both_values
    if place.path is None:
        return "unknown" if may_be_a_step else "update"
    return _intent_by_name(place, place.path, may_be_a_step)


def _is_flagged_for_its_result(place: Place) -> bool:
    """`w = F.relu(self.w, inplace=True)`."""
    return isinstance(place.node, ast.Call) and has_flag(place.node) and not isinstance(place.statement, ast.Expr)


def _intent_by_name(place: Place, path: str, may_be_a_step: bool) -> Intent:
    """Decides by what the name is, and how it is used."""
    if "." in path or _is_loop_variable(place, path):
        return "update"
    if place.facts.trained and not any("." in name for name in place.facts.names):  # no local name of a parameter
        return "update"
    name = getattr(place.code.function(place.statement), "name", "")
    if _computed_with_by_a_caller(place):
        return "value"
    if is_update_name(name) and not _handed_on(place, path):
        return "update"
    if name in ("forward", "__call__") and isinstance(place.statement, ast.Return):
        return "value"  # the result of the module counts
    if not binds(place.statement, path) and not used_later(place.code, place.statement, path):
        return "unknown" if _is_read_here(place) or may_be_a_step else "update"
    return "unknown" if name == "__init__" else "value"


def _is_read_here(place: Place) -> bool:
    """Does the same function read it later, by another name or from a list?"""
    return any(read.where == "here" for read in place.facts.reads)


def _is_loop_variable(place: Place, path: str) -> bool:
    found = bindings(place.code, place.statement, path)
    return any(isinstance(binding, ast.For | ast.AsyncFor) for binding in found)


def _computed_with_by_a_caller(place: Place) -> bool:
    """Does a caller go on with a view of the leaf, which the write changed?"""
    views = [read for read in place.facts.reads if read.view and not read.of_leaf]
    return any(read.where == "caller" and read.sure for read in views)


def _ends_a_round(place: Place) -> bool:
    """`target.copy_(w)` after the backward of a loop, and not read until the next iteration: a graph has just ended."""
    loops = place.code.loops(place.statement)
    if not loops or place.path is None:
        return False
    inside = [node for node in ast.walk(loops[0]) if isinstance(node, ast.stmt) and node is not loops[0]]
    below = [node for node in inside if node.lineno > place.statement.lineno]
    before = [node for node in inside if node.lineno < place.statement.lineno]
    return any(map(_goes_backward, before)) and not reads_any(below, [place.path])


def _goes_backward(statement: ast.stmt) -> bool:
    parts = (node for part in own_parts(statement) for node in ast.walk(part))
    return any(isinstance(node, ast.Call) and called_name(node) in ("backward", "grad", "step") for node in parts)


def _handed_on(place: Place, name: str) -> bool:
    """`def set_velocity(self, v): v[2] = 0; self.v = v`: the written value is stored for later computation."""
    function = place.code.function(place.statement)
    later = [node for node in ast.walk(function) if isinstance(node, ast.Assign)] if function is not None else []
    return any(
        ast.unparse(node.value) == name and any(isinstance(target, ast.Attribute) for target in node.targets)
        for node in later
        if node.lineno > place.statement.lineno
    )
