"""The value of a name after branches have joined: one of several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outplace.source.graph import compatible
from outplace.source.values import PLAIN, UNKNOWN, Choice, Const, Items, Plain, StateDict, Tensor, Unknown, Value

if TYPE_CHECKING:
    from outplace.source.graph import Path


def is_same_constant(one: Value, other: Value) -> bool:
    """Are both the same known constant?"""
    return isinstance(one, Const) and isinstance(other, Const) and _same(one, other)


def options(value: Value) -> tuple[Value, ...]:
    """The values it may be."""
    return value.options if isinstance(value, Choice) else (value,)


def narrowed(choice: Choice, path: Path) -> Value:
    """What it can be on a path."""
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


def join(values: list[Value]) -> Value:
    """One of these values. Equal constants count once; too many different values become unknown."""
    found: list[Value] = []
    for value in values:
        for option in options(value):
            place = _place(option, found) if len(found) <= _MOST_OPTIONS else None  # of too many it does not matter
            if place is None:
                found.append(option)
            elif option is not found[place]:
                if isinstance(option, _NOBODY):
                    found[place] = _nobody(found[place], option)
                elif isinstance(option, StateDict) and isinstance(other := found[place], StateDict):
                    found[place] = min(option, other, key=lambda kept: kept.since)
    if not found:
        return UNKNOWN
    if len(found) == 1:
        return found[0]
    return Choice(tuple(found)) if len(found) <= _MOST_OPTIONS else _any_of(found)


_NOBODY = (Unknown, Plain)


def _nobody(one: Value, other: Value) -> Value:
    """One of two unknown values. The memory that they may share is kept."""
    if isinstance(one, Plain):
        return next((value for value in (one, other) if isinstance(value, Plain) and value.storage is not None), PLAIN)
    of = one.of | other.of if isinstance(one, Unknown) and isinstance(other, Unknown) else frozenset()
    return Unknown(of) if of else UNKNOWN


def _any_of(found: list[Value]) -> Value:
    if all(isinstance(value, (Plain, Const)) for value in found):
        return PLAIN
    of = frozenset(value.storage for value in found if isinstance(value, Tensor))
    return Unknown(of.union(*(value.of for value in found if isinstance(value, Unknown))))


def _some_of(found: list[Value], leading: list[Path], vague: set[int]) -> Value:
    """Of too many values a few tensors, each with its path, and something unknown for all the others.

    They are the first ones, and a view that may not be written, if there is one. Those in `vague` lie on two
    ways that exclude each other: no path tells which.
    """
    clear = [(value, leading[place]) for place, value in enumerate(found) if place not in vague]
    tensors = [(value, path) for value, path in clear if isinstance(value, Tensor)]
    refused = [pair for pair in tensors if pair[0].view in ("multi", "nograd", "custom")]
    kept = tensors[: _MOST_OPTIONS - 1]
    if refused and not any(pair in kept for pair in refused):
        kept[-1] = refused[0]
    if len(kept) < 2:
        return _any_of(found)
    return Choice((*(value for value, _ in kept), _any_of(found)), (*(path for _, path in kept), ()))


def any_item(holder: Items) -> Value:
    """An item that stands for all of them."""
    return join([*holder.items, *([holder.rest] if holder.rest is not None else [])])


def with_paths(value: Value) -> list[tuple[Value, Path]]:
    """What it may be, and the path that leads to each."""
    return list(zip(value.options, value.paths, strict=True)) if isinstance(value, Choice) else [(value, ())]


def join_arms(values: list[Value], paths: list[Path]) -> Value:
    """One of these, each with the path that leads to it."""
    if len(values) == 1:
        return values[0]
    if len(values) == 2 and not _MANY.intersection(map(type, values)):  # as below, for most of what is joined
        one, other = values
        if one is other:
            return one
        if type(one) is not type(other) or not _same(one, other):
            return Choice((one, other), (paths[0], paths[1]))
    found, leading, vague = _collected(values, paths)
    if len(found) == 1 or StateDict in map(type, found):
        return join(values)
    return Choice(tuple(found), tuple(leading)) if len(found) <= _MOST_OPTIONS else _some_of(found, leading, vague)


def _collected(values: list[Value], paths: list[Path]) -> tuple[list[Value], list[Path], set[int]]:
    """The different values, the path to each, and which of them lie on two paths that exclude each other."""
    found: list[Value] = []
    leading: list[Path] = []
    vague = set[int]()
    for value, outer in zip(values, paths, strict=True):
        for option, inner in with_paths(value):
            path = outer
            if inner:
                if not compatible(outer, inner):
                    continue
                path = (*outer, *[arm for arm in inner if arm not in outer])
            place = _place(option, found)
            if place is None:
                found.append(option)
                leading.append(path)
                continue
            vague |= set() if compatible(leading[place], path) else {place}
            leading[place] = tuple([arm for arm in leading[place] if arm in path])
            if option is not found[place] and isinstance(option, _NOBODY):
                found[place] = _nobody(found[place], option)
    return found, leading, vague


_MANY = {Choice, StateDict}


def _place(value: Value, found: list[Value]) -> int | None:
    """Which of these is the same."""
    for place, other in enumerate(found):
        if value is other or (type(value) is type(other) and _same(value, other)):
            return place
    return None


def _same(one: Value, other: Value) -> bool:
    """Do two values of one class mean the same?"""
    if isinstance(one, Const):
        return isinstance(other, Const) and type(one.value) is type(other.value) and bool(one.value == other.value)
    if isinstance(one, StateDict):
        return isinstance(other, StateDict) and one.of == other.of
    return isinstance(one, _NOBODY)
