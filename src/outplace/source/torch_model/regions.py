"""Which part of a tensor a view is."""

from __future__ import annotations

from collections.abc import Sequence

from outplace.source.overlaps import TURNED, Region, lie_apart
from outplace.source.values import Bound, Const, Items, Plain, Tensor, Value


def part(tensor: Tensor, key: Value) -> Region | None:
    """The part that `tensor[key]` is; None where it is not one block, or not known."""
    return part_of(tensor.region, key)


def part_of(region: Region | None, key: Value) -> Region | None:
    """The part that `x[key]` is, where x is such a part itself."""
    if region is None or any(isinstance(index, (slice, str)) for index in region):
        return None
    found: list[int | slice | str | None] = list(region)
    for index in key.items if isinstance(key, Items) and key.kind == "tuple" else [key]:
        if found and isinstance(found[-1], slice):
            return None
        if isinstance(index, Plain) and index.storage is None:
            found.append(None)
        elif isinstance(index, Const) and _is_block(index.value):
            found.append(index.value)
        else:
            return None
    return tuple(index for index in found if index != slice(None, None, None))


def is_block(key: Value) -> bool:
    """Is `x[key]` one piece of a tensor that lies in one piece?"""
    keys = key.items if isinstance(key, Items) and key.kind == "tuple" else [key]
    numbers = [isinstance(index, Plain) or (isinstance(index, Const) and type(index.value) is int) for index in keys]
    everything = [isinstance(index, Const) and index.value in (slice(None), Ellipsis, None) for index in keys]
    first = next((place for place, number in enumerate(numbers) if not number), len(keys))
    return all(everything[first + 1 :])


def _is_block(index: object) -> bool:
    if isinstance(index, slice):
        return index.step in (None, 1)
    return isinstance(index, int) and not isinstance(index, bool)


def turned(tensor: Tensor) -> Region | None:
    """What `tensor.t()` is."""
    return None if tensor.region is None or TURNED in tensor.region else (TURNED, *tensor.region)


def _places(key: Value) -> dict[int, int | slice]:
    """The indices of `x[key]` that are known, by their dimension; behind an ellipsis counted from the last one."""
    keys = key.items if isinstance(key, Items) and key.kind == "tuple" else [key]
    if any(
        not isinstance(item, Const | Plain | Bound) or (isinstance(item, Const) and item.value is None) for item in keys
    ):
        return {}  # a mask, or a new dimension
    dots = next((place for place, one in enumerate(keys) if isinstance(one, Const) and one.value is ...), len(keys))
    return {
        place if place < dots else place - len(keys): one.value
        for place, one in enumerate(keys)
        if isinstance(one, Const) and _is_block(one.value)
    }


def number_parts(parts: Sequence[Value]) -> None:
    """Notes that these lie apart. (The first stands for those behind the last, too: they are not told apart.)"""
    call = object()
    for place, part in enumerate(parts):
        if isinstance(part, Tensor) and part.view is not None:
            part.parts = (*part.parts, (call, Const(place)))


def are_other_parts(one: Tensor, other: Tensor) -> bool:
    """Do they surely lie in two parts of one tensor that have nothing in common?"""
    return any(
        first is second and _name_other_places(_places(here), _places(there))
        for first, here in one.parts
        for second, there in other.parts
    )


def _name_other_places(one: dict[int, int | slice], other: dict[int, int | slice]) -> bool:
    return any(lie_apart(one[place], other[place]) for place in one.keys() & other.keys())
