"""The value of a name after branches were joined: one of several values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outplace.source.graph import compatible
from outplace.source.values import PLAIN, UNKNOWN, Choice, Const, Items, Plain, StateDict, Tensor, Unknown, Value

if TYPE_CHECKING:
    from outplace.source.graph import Path


def is_same_constant(one: Value, other: Value) -> bool:
    """True if both are the same known constant."""
    return isinstance(one, Const) and isinstance(other, Const) and _same(one, other)


def options(value: Value) -> tuple[Value, ...]:
    """Returns the values that it may be."""
    return value.options if isinstance(value, Choice) else (value,)


def narrowed(choice: Choice, path: Path) -> Value:
    """Returns what the choice can be on a path."""
    if not path:
        return choice
    taken = dict(path)
    left: list[int] = []
    for place, arms in enumerate(choice.paths):
        for branch, arm in arms:
            if taken.get(branch, arm) != arm:
                break
        else:
            left.append(place)
    if len(left) == len(choice.options) or not left:
        return choice
    if len(left) == 1:
        return choice.options[left[0]]
    return Choice(tuple(choice.options[place] for place in left), tuple(choice.paths[place] for place in left))


_MOST_OPTIONS = 4
_MOST_ARMS = 200
"""A tensor behind more branches than this counts as unknown, because each use compares its whole path."""


def join(values: list[Value]) -> Value:
    """Returns one of these values. Equal constants count once; too many different values become unknown."""
    found: list[Value] = []
    for value in values:
        for option in options(value):
            place = _index_of(option, found) if len(found) <= _MOST_OPTIONS else None  # too many become unknown anyway
            if place is None:
                found.append(option)
            elif option is not found[place]:
                if isinstance(option, _UNKNOWN_KINDS):
                    found[place] = _joined_unknowns(found[place], option)
                elif isinstance(option, StateDict) and isinstance(other := found[place], StateDict):
                    found[place] = min(option, other, key=lambda kept: kept.since)
    if not found:
        return UNKNOWN
    if len(found) == 1:
        return found[0]
    return Choice(tuple(found)) if len(found) <= _MOST_OPTIONS else _unknown_for(found)


_UNKNOWN_KINDS = (Unknown, Plain)


def _joined_unknowns(one: Value, other: Value) -> Value:
    """Joins two unknown values, and keeps the storages that they may share."""
    if isinstance(one, Plain):
        return next((value for value in (one, other) if isinstance(value, Plain) and value.storage is not None), PLAIN)
    of = one.of | other.of if isinstance(one, Unknown) and isinstance(other, Unknown) else frozenset()
    return Unknown(of) if of else UNKNOWN


def _unknown_for(found: list[Value]) -> Value:
    if all(isinstance(value, (Plain, Const)) for value in found):
        return PLAIN
    of = frozenset(value.storage for value in found if isinstance(value, Tensor))
    return Unknown(of.union(*(value.of for value in found if isinstance(value, Unknown))))


def _shortened_choice(found: list[Value], leading: list[Path], ambiguous: set[int]) -> Value:
    """Returns a choice of a few tensors, each with its path, and an unknown value for all the others.

    Takes the first tensors, and a view that may not be written, if there is one. Those in `ambiguous` are reached on
    two paths that exclude each other, so no single path leads to them.
    """
    clear = [(value, leading[place]) for place, value in enumerate(found) if place not in ambiguous]
    tensors = [(value, path) for value, path in clear if isinstance(value, Tensor) and len(path) <= _MOST_ARMS]
    refused = [pair for pair in tensors if pair[0].view in ("multi", "nograd", "custom")]
    kept = tensors[: _MOST_OPTIONS - 1]
    if refused and not any(pair in kept for pair in refused):
        kept[-1] = refused[0]
    if len(kept) < 2:
        return _unknown_for(found)
    return Choice((*(value for value, _ in kept), _unknown_for(found)), (*(path for _, path in kept), ()))


def any_item(holder: Items) -> Value:
    """Returns a value that stands for any of the items."""
    return join([*holder.items, *([holder.rest] if holder.rest is not None else [])])


def with_paths(value: Value) -> list[tuple[Value, Path]]:
    """Returns the values that it may be, each with the path that leads to it."""
    return list(zip(value.options, value.paths, strict=True)) if isinstance(value, Choice) else [(value, ())]


def join_arms(values: list[Value], paths: list[Path]) -> Value:
    """Returns one of these values, each with the path that leads to it."""
    if len(values) == 1:
        return values[0]
    if len(values) == 2 and not _COMPOSITE.intersection(map(type, values)):  # a fast path
        one, other = values
        if one is other:
            return one
        if type(one) is not type(other) or not _same(one, other):
            return Choice((one, other), (paths[0], paths[1]))
    found, leading, ambiguous = _distinct_values(values, paths)
    if len(found) == 1 or StateDict in map(type, found):
        return join(values)
    return (
        Choice(tuple(found), tuple(leading))
        if len(found) <= _MOST_OPTIONS
        else _shortened_choice(found, leading, ambiguous)
    )


def _distinct_values(values: list[Value], paths: list[Path]) -> tuple[list[Value], list[Path], set[int]]:
    """Returns the different values, the path to each, and the indices of those reached on excluding paths."""
    found: list[Value] = []
    leading: list[Path] = []
    ambiguous = set[int]()
    for value, outer in zip(values, paths, strict=True):
        for option, inner in with_paths(value):
            path = outer
            if inner:
                if not compatible(outer, inner):
                    continue
                path = (*outer, *[arm for arm in inner if arm not in outer])
            place = _index_of(option, found)
            if place is None:
                found.append(option)
                leading.append(path)
                continue
            ambiguous |= set() if compatible(leading[place], path) else {place}
            leading[place] = tuple([arm for arm in leading[place] if arm in path])
            if option is not found[place] and isinstance(option, _UNKNOWN_KINDS):
                found[place] = _joined_unknowns(found[place], option)
    return found, leading, ambiguous


_COMPOSITE = {Choice, StateDict}


def _index_of(value: Value, found: list[Value]) -> int | None:
    """Returns the index of an equal value, or None."""
    for place, other in enumerate(found):
        if value is other or (type(value) is type(other) and _same(value, other)):
            return place
    return None


def _same(one: Value, other: Value) -> bool:
    """True if two values of one class mean the same."""
    if isinstance(one, Const):
        return isinstance(other, Const) and type(one.value) is type(other.value) and bool(one.value == other.value)
    if isinstance(one, StateDict):
        return isinstance(other, StateDict) and one.of == other.of
    return isinstance(one, _UNKNOWN_KINDS)
