"""The evidence of a run (losses, gradients, diagnoses), and the comparison of two runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

TOLERANCE = 1e-4
"""Relative. Adding the same numbers in another order changes float32 results by less."""
NOISE = 1e-6
"""Relative to the largest gradient of a backward. Less is rounding, as in the bias before a batch norm."""


@dataclass
class Evidence:
    """One run: its exit code, its diagnoses, and for each backward its root and the gradients."""

    code: int
    diagnoses: list[dict[str, Any]]
    roots: list[list[list[float]]] = field(default_factory=list)
    draws: list[int] = field(default_factory=list)
    """How many random numbers were drawn before each of them."""
    gradients: dict[int, dict[str, Any]] = field(default_factory=dict)
    steps: dict[int, list[Any]] = field(default_factory=dict)
    """For each optimizer, what each of its steps used: the weights, their gradients, and their positions."""
    files: list[str] = field(default_factory=list)
    moment: dict[str, Any] | None = None
    """The failed backward, and the last optimizer step before it."""
    came_into_freed: bool = False
    """Did a backward reach a freed graph? Every repair changes the training, so no run can prove one."""
    stopped: bool = False
    """Was it still running at the time limit?"""

    @property
    def good(self) -> bool:
        """Did it finish without a diagnosis?"""
        return not self.diagnoses and (self.code == 0 or self.stopped)


def read(path: str, evidence: Evidence) -> Evidence:
    """Adds what a run has recorded."""
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


def same_roots(first: Evidence, second: Evidence, count: int | None = None) -> bool:
    """Did the backwards that both runs reached start from the same values?"""
    both = min(len(first.roots), len(second.roots), len(first.roots) if count is None else count)
    return alike(first, second) >= both


def drew_same_numbers(first: Evidence, second: Evidence) -> bool:
    """Had both runs drawn the same number of random numbers before the last backward that both reached?"""
    last = min(len(first.draws), len(second.draws))
    return last == 0 or first.draws[last - 1] == second.draws[last - 1]


def alike(first: Evidence, second: Evidence) -> int:
    """How many backwards, from the first on, started from the same values?"""
    count = min(len(first.roots), len(second.roots))
    return next((number for number in range(count) if not _same_root(first.roots[number], second.roots[number])), count)


def _same_root(mine: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> bool:
    return len(mine) == len(theirs) and all(_close(a, b) for a, b in zip(mine, theirs, strict=True))


def same_gradients(first: Evidence, second: Evidence, same_weights: bool = True) -> tuple[bool, int]:
    """Did both runs compute the same gradients, for the same weights? And how many backwards were compared?"""
    both = sorted(first.gradients.keys() & second.gradients.keys())
    for number in both:
        mine, theirs = first.gradients[number], second.gradients[number]
        if not _matched(mine["gradients"], theirs["gradients"], same_weights):
            return False, len(both)
        if len(mine["returned"]) != len(theirs["returned"]):
            return False, len(both)
        if not all(_close(a, b) for a, b in zip(mine["returned"], theirs["returned"], strict=True)):
            return False, len(both)
    return True, len(both)


def same_training(first: Evidence, second: Evidence) -> bool:
    """Did the backwards start from the same values, and did every step of each optimizer use the same gradients?

    The backwards and the optimizers may run in another order.
    """
    same_steps = _paired(list(first.steps.values()), list(second.steps.values()), _same_steps)
    return same_steps and _paired(first.roots, second.roots, _same_root)


def trains_as_many(first: Evidence, second: Evidence) -> bool:
    """Does each optimizer get, in some step, a gradient for every weight that it gets one for in the first run?"""
    return all(_trained(steps) <= _trained(second.steps.get(number, [])) for number, steps in first.steps.items())


def _trained(steps: Sequence[Any]) -> set[int]:
    """The positions of the weights that some step has a gradient for."""
    return {place for step in steps for _, gradient, place in step if gradient[1] != 0}


def _paired(mine: Sequence[Any], theirs: Sequence[Any], same: Callable[[Any, Any], bool]) -> bool:
    """Can the items of both lists be paired, without a rest?"""
    unmatched = list(theirs)
    for item in mine:
        match = next((number for number, other in enumerate(unmatched) if same(item, other)), None)
        if match is None:
            return False
        del unmatched[match]
    return not unmatched


def _same_steps(mine: Sequence[Any], theirs: Sequence[Any]) -> bool:
    if len(mine) != len(theirs) or any(len(a) != len(b) for a, b in zip(mine, theirs, strict=True)):
        return False
    return all(map(_same_step, mine, theirs))


def _same_step(mine: Sequence[Any], theirs: Sequence[Any]) -> bool:
    noise = _noise([gradient for _, gradient, _ in (*mine, *theirs)])
    pairs = ((a, b) for a, b in zip(mine, theirs, strict=True) if max(_norm(a[1]), _norm(b[1])) > noise)
    return all(_close(a[0], b[0]) and _close(a[1], b[1]) for a, b in pairs)


def _noise(gradients: Sequence[Sequence[float]]) -> float:
    """Smaller gradients are rounding. An optimizer that divides by them moves their weights by chance."""
    return NOISE * max((norm for norm in map(_norm, gradients) if math.isfinite(norm)), default=0.0)


def _norm(digest: Sequence[float]) -> float:
    return abs(digest[1]) if len(digest) > 1 else 0.0


def _matched(mine: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]], same_weights: bool) -> bool:
    """Have both the same leaves with the same gradients, in any order?"""
    unmatched = [leaf for leaf in theirs if leaf["grad"] is not None]
    wanted = [leaf for leaf in mine if leaf["grad"] is not None]
    noise = _noise([leaf["grad"] for leaf in (*wanted, *unmatched)])
    for leaf in sorted(wanted, key=lambda leaf: -_norm(leaf["grad"])):
        match = next((other for other in unmatched if _same_leaf(leaf, other, same_weights, noise)), None)
        if match is None:
            return False
        unmatched.remove(match)
    return not unmatched


def _same_leaf(first: dict[str, Any], second: dict[str, Any], same_weights: bool, noise: float) -> bool:
    same_shape = first["leaf"][-1] == second["leaf"][-1]
    if max(_norm(first["grad"]), _norm(second["grad"])) <= noise:
        return bool(same_shape)
    same_values = not same_weights or _close(first["leaf"][:-1], second["leaf"][:-1])
    return same_shape and same_values and _close(first["grad"], second["grad"])


def _close(first: Sequence[float], second: Sequence[float]) -> bool:
    """Are two digests equal within the tolerance? It is relative to the second number, the norm."""
    size = max(abs(first[1]), abs(second[1])) if len(first) > 1 and len(second) > 1 else 0.0
    if math.isnan(size) or math.isinf(size):
        return str(first) == str(second)
    return len(first) == len(second) and all(
        abs(a - b) <= TOLERANCE * max(size, 1e-6) + 1e-9 for a, b in zip(first, second, strict=True)
    )
