"""From observations to conditions: the simplest rule that explains when something was saved.

A condition is None (never), True (always) or a dict all of whose parts must hold:
`grad` (one of these arguments requires grad), `tensor` (these are given, as tensors), `given` (these are given),
`lacks` (these are not given), `option` with `in` or `not` (an option has, or has not, one of these values; null stands
for any value that is no word, flag or telling number), `maybe` (further values for which it was seen only sometimes),
`some` (and even then only sometimes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from op_table_measure import Observation

Hit = Callable[[Observation], bool]
OFTEN = 4


@dataclass(frozen=True)
class Part:
    """One part of a condition, necessary for what it is to explain."""

    kind: str
    names: tuple[str, ...]
    values: tuple[Any, ...] = ()

    def holds(self, o: Observation) -> bool:
        if self.kind == "grad":
            return bool(o.grad & set(self.names))
        if self.kind == "option":
            return o.options.get(self.names[0]) in self.values
        present = self.names[0] in o.tensors or (self.kind != "tensor" and self.names[0] in o.given)
        return present != (self.kind == "lacks")


def condition(seen: list[Observation], hit: Hit) -> Any:
    """The simplest condition under which `hit` holds."""
    hits = [o for o in seen if hit(o)]
    if not hits:
        return None
    if len(hits) == len(seen):
        return True
    parts = list(_necessary(seen, hits))
    for size in (1, 2, 3):
        for chosen in combinations(parts, size):
            if sum(part.kind == "option" for part in chosen) > 1:
                continue  # a condition has room for one
            if all(hit(o) for o in seen if all(part.holds(o) for part in chosen)):
                return _written(chosen, seen)
    grad = [part for part in parts if part.kind == "grad"]
    return _partly([o for o in seen if all(p.holds(o) for p in grad)], hit) | _written(grad, seen)


def _necessary(seen: list[Observation], hits: list[Observation]) -> Iterator[Part]:
    """Parts that hold for every hit and not for all that was seen, the most telling kinds first."""
    found = []
    owners = {next(iter(o.grad)) for o in hits if len(o.grad) == 1}
    if owners:
        found.append(Part("grad", tuple(sorted(owners))))
    found += [Part("tensor", (n,)) for n in sorted({n for o in seen for n in o.tensors})]
    for option in _options(seen):
        values = {o.options.get(option) for o in hits}
        found.append(Part("option", (option,), tuple(sorted(values, key=str))))
    names = sorted({n for o in seen for n in o.tensors | o.given})
    found += [Part(kind, (n,)) for kind in ("lacks", "given") for n in names]
    for part in found:
        if all(part.holds(o) for o in hits) and not all(part.holds(o) for o in seen):
            yield part


def _options(seen: list[Observation]) -> list[str]:
    """Options that every call had."""
    return sorted({k for o in seen for k in o.options if all(k in other.options for other in seen)})


def _partly(seen: list[Observation], hit: Hit) -> dict[str, Any]:
    """A word some of whose values decide while others do so only sometimes (`padding="same"`); else `some`.

    Flags are left out, and a value must have been met often: with many options some fit by chance.
    """
    for option in _options(seen):
        outcomes: dict[Any, list[bool]] = {}
        for o in seen:
            outcomes.setdefault(o.options.get(option), []).append(hit(o))
        if any(isinstance(value, bool) for value in outcomes):
            continue
        sure = sorted((v for v, found in outcomes.items() if all(found) and len(found) >= OFTEN), key=str)
        never = [v for v, found in outcomes.items() if not any(found)]
        if sure and len(sure) + len(never) < len(outcomes):
            return {"option": option, "in": sure, "maybe": sorted(set(outcomes) - {*sure, *never}, key=str)}
    return {"some": True}


def _written(parts: Any, seen: list[Observation]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in parts:
        if part.kind == "option":
            others = {o.options.get(part.names[0]) for o in seen} - set(part.values)
            found["option"] = part.names[0]
            if len(others) < len(part.values) and None not in others:
                found["not"] = sorted(others, key=str)
            else:
                found["in"] = list(part.values)
        elif part.kind == "grad":
            found["grad"] = list(part.names)
        else:
            found.setdefault(part.kind, []).append(part.names[0])
    return found
