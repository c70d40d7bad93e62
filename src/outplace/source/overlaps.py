"""Do two parts of one tensor overlap? PyTorch only checks blocks that lie in one piece.

An in-place operation may read what it writes (`x += x`) or another block (`x[0] += x[1]`), but not a block that
overlaps the written one elsewhere (`x[1:] += x[:-1]`, `x /= x[0]`). Parts with gaps (`x[:, 1:]`) PyTorch does not
compare.
"""

from __future__ import annotations

Region = tuple[int | slice | str | None, ...]
"""Leading indices, None for one that is not known, and then perhaps a slice; () is the whole tensor. What is transposed
begins with TURNED; all of it in another shape is (RESHAPED,)."""
TURNED = "turned"
RESHAPED = "reshaped"

_SIZES = range(4, 17)


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
        relations = _relations(one, other)
        if relations != {"same"}:
            return relations == {"overlap"}
    return len(written) != len(read)


def apart(one: Region | None, other: Region | None, least: int = _SIZES.start) -> bool:
    """Have two blocks of one tensor surely nothing in common, if it has at least so many of them?"""
    first, second = one or (), other or ()
    if TURNED in first or TURNED in second:
        return False
    return any(_relations(*pair, least) == {"apart"} for pair in zip(first, second, strict=False))


def lie_apart(one: int | slice, other: int | slice) -> bool:
    """Have two indices of a dimension nothing in common, whatever its size?"""
    return _relations(one, other, 1) == {"apart"}


def _relations(
    one: int | slice | str | None, other: int | slice | str | None, least: int = _SIZES.start
) -> set[str | None]:
    """How two indices of a dimension lie, whatever its size; nothing where that cannot be known."""
    if one is None or other is None or isinstance(one, str) or isinstance(other, str):
        return set()
    return {_relation(one, other, size) for size in range(least, _SIZES.stop)} - {None}


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
