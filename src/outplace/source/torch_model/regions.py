"""Which part of a tensor a view is, as far as PyTorch looks for overlaps: blocks that lie in one piece.

An in-place operation may read what it writes (`x += x`) or another block (`x[0] += x[1]`), but not a block that
overlaps the written one elsewhere (`x[1:] += x[:-1]`, `x /= x[0]`). Parts with gaps (`x[:, 1:]`) PyTorch does not
compare.
"""

from __future__ import annotations

from outplace.source.values import Const, Items, Plain, Tensor, Value

Region = tuple[int | slice | str | None, ...]
"""Leading indices, None for one that is not known, and then perhaps a slice; () is the whole tensor. What is transposed
begins with TURNED; all of it in another shape is (RESHAPED,)."""
TURNED = "turned"
RESHAPED = "reshaped"

_SIZES = range(4, 17)


def part(tensor: Tensor, key: Value) -> Region | None:
    """The part that `tensor[key]` is; None where it is not one block, or not known."""
    if tensor.region is None or any(isinstance(index, (slice, str)) for index in tensor.region):
        return None
    found: list[int | slice | str | None] = list(tensor.region)
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


def touches(written: Region | None, read: Region | None) -> bool:
    """Does a write of one block surely change another?"""
    return written is not None and (written == read or overlap(written, read))


def overlap(written: Region | None, read: Region | None) -> bool:
    """Do two blocks of one tensor surely overlap without being the same?"""
    if written is None or read is None:
        return False
    if (TURNED, *written) == read or written == (TURNED, *read):
        return True
    for one, other in zip(written, read, strict=False):
        if one is None or other is None or isinstance(one, str) or isinstance(other, str):
            return False
        relations = {_relation(one, other, size) for size in _SIZES} - {None}
        if relations == {"same"}:
            continue
        return relations == {"overlap"}
    return len(written) != len(read)


def _relation(one: int | slice, other: int | slice, size: int) -> str | None:
    """How two indices of a dimension of this size lie; None where one of them is out of range."""
    first, second = _elements(one, size), _elements(other, size)
    if not first or not second:
        return None
    if first == second:
        return "same" if isinstance(one, slice) == isinstance(other, slice) else "overlap"
    return "overlap" if first & second else "apart"


def _elements(index: int | slice, size: int) -> frozenset[int]:
    numbers = range(size)
    if isinstance(index, slice):
        try:
            return frozenset(numbers[index])
        except (TypeError, ValueError):
            return frozenset()
    return frozenset([numbers[index]]) if -size <= index < size else frozenset()
