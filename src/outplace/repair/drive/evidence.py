"""What runs of a program show, and how two of them compare."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

TOLERANCE = 1e-4
"""Relative; another order of the same additions moves float32 results by less."""


@dataclass
class Evidence:
    """One run: its exit code, its diagnoses, and what each backward had as its root and left as gradients."""

    code: int
    diagnoses: list[dict[str, Any]]
    roots: list[list[list[float]]] = field(default_factory=list)
    draws: list[int] = field(default_factory=list)
    """How far the random numbers were at each of them."""
    gradients: dict[int, dict[str, Any]] = field(default_factory=dict)
    steps: dict[int, list[Any]] = field(default_factory=dict)
    """What each optimizer's steps took, one by one: the weights, their gradients, and their places."""
    files: list[str] = field(default_factory=list)
    moment: dict[str, Any] | None = None
    """Where the backward that failed stands after the last step that it minds."""
    came_into_freed: bool = False
    """Did a backward come into a freed graph? That is mended by another training only, so no run can prove it."""
    stopped: bool = False
    """Was it still running when its time was up?"""

    @property
    def good(self) -> bool:
        """Did it come through, without a diagnosis?"""
        return not self.diagnoses and (self.code == 0 or self.stopped)


def read(path: str, evidence: Evidence) -> Evidence:
    """Adds the notes that a run left."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.readlines()
    except OSError:
        return evidence
    for line in lines:
        try:
            fact = json.loads(line)
        except ValueError:
            continue
        if "root" in fact:
            evidence.roots.append(fact["root"])
            evidence.draws.append(fact["draws"])
        elif "moment" in fact:
            evidence.moment = fact["moment"]
        elif "step" in fact:
            evidence.steps.setdefault(fact["step"], []).append(fact["taken"])
        elif "backward" in fact:
            evidence.gradients[fact["backward"]] = fact
        elif "files" in fact:
            evidence.files = fact["files"]
    return evidence


def same_roots(one: Evidence, other: Evidence, count: int | None = None) -> bool:
    """Did the backwards that both runs reached start from the same values?"""
    both = min(len(one.roots), len(other.roots), len(one.roots) if count is None else count)
    return alike(one, other) >= both


def drew_alike(one: Evidence, other: Evidence) -> bool:
    """Had they drawn as much at random when they came to the last backward that both of them reached?"""
    last = min(len(one.draws), len(other.draws))
    return last == 0 or one.draws[last - 1] == other.draws[last - 1]


def alike(one: Evidence, other: Evidence) -> int:
    """How many backwards, from the first on, started from the same values?"""
    count = min(len(one.roots), len(other.roots))
    return next((number for number in range(count) if not _same_root(one.roots[number], other.roots[number])), count)


def _same_root(mine: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> bool:
    return len(mine) == len(theirs) and all(_close(a, b) for a, b in zip(mine, theirs, strict=True))


def same_gradients(one: Evidence, other: Evidence, same_weights: bool = True) -> tuple[bool, int]:
    """Did they leave the same gradients, on the same weights? And how many backwards could be compared?"""
    both = sorted(one.gradients.keys() & other.gradients.keys())
    for number in both:
        mine, theirs = one.gradients[number], other.gradients[number]
        if not _matched(mine["gradients"], theirs["gradients"], same_weights):
            return False, len(both)
        if len(mine["returned"]) != len(theirs["returned"]):
            return False, len(both)
        if not all(_close(a, b) for a, b in zip(mine["returned"], theirs["returned"], strict=True)):
            return False, len(both)
    return True, len(both)


def same_training(one: Evidence, other: Evidence) -> bool:
    """Did the backwards start from the same values, and did every step of each optimizer take the same gradients? The
    backwards, and the optimizers, may take their turns in another order."""
    same_steps = _paired(list(one.steps.values()), list(other.steps.values()), _same_steps)
    return same_steps and _paired(one.roots, other.roots, _same_root)


def trains_as_many(one: Evidence, other: Evidence) -> bool:
    """Does each optimizer get, in some step, a gradient for every weight that it gets one for in the first run?"""
    return all(_trained(steps) <= _trained(other.steps.get(number, [])) for number, steps in one.steps.items())


def _trained(steps: Sequence[Any]) -> set[int]:
    """The places of the weights that some step takes a gradient for."""
    return {place for step in steps for _, gradient, place in step if gradient[1] != 0}


def _paired(mine: Sequence[Any], theirs: Sequence[Any], same: Callable[[Any, Any], bool]) -> bool:
    """Has each of mine one of theirs that is the same, and none is left?"""
    left = list(theirs)
    for item in mine:
        match = next((number for number, other in enumerate(left) if same(item, other)), None)
        if match is None:
            return False
        del left[match]
    return not left


def _same_steps(mine: Sequence[Any], theirs: Sequence[Any]) -> bool:
    if len(mine) != len(theirs) or any(len(a) != len(b) for a, b in zip(mine, theirs, strict=True)):
        return False
    pairs = [pair for a, b in zip(mine, theirs, strict=True) for pair in zip(a, b, strict=True)]
    return all(_close(a[0], b[0]) and _close(a[1], b[1]) for a, b in pairs)


def _matched(mine: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]], same_weights: bool) -> bool:
    """The same leaves with the same gradients, in whatever order the graph hands them out."""
    left = [leaf for leaf in theirs if leaf["grad"] is not None]
    for leaf in (leaf for leaf in mine if leaf["grad"] is not None):
        match = next((other for other in left if _same_leaf(leaf, other, same_weights)), None)
        if match is None:
            return False
        left.remove(match)
    return not left


def _same_leaf(one: dict[str, Any], other: dict[str, Any], same_weights: bool) -> bool:
    same_shape = one["leaf"][-1] == other["leaf"][-1]
    same_values = not same_weights or _close(one["leaf"][:-1], other["leaf"][:-1])
    return same_shape and same_values and _close(one["grad"], other["grad"])


def _close(one: Sequence[float], other: Sequence[float]) -> bool:
    """The second number of a digest is its size: the others are measured by it."""
    size = max(abs(one[1]), abs(other[1])) if len(one) > 1 and len(other) > 1 else 0.0
    if math.isnan(size) or math.isinf(size):
        return str(one) == str(other)
    return len(one) == len(other) and all(
        abs(a - b) <= TOLERANCE * max(size, 1e-6) + 1e-9 for a, b in zip(one, other, strict=True)
    )
