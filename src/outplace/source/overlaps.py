"""Do two parts of one tensor overlap? PyTorch only checks blocks that lie in one piece.

An in-place operation may read what it writes (`x += x`) or another block (`x[0] += x[1]`), but not a block that
overlaps the written one elsewhere (`x[1:] += x[:-1]`, `x /= x[0]`). Parts with gaps (`x[:, 1:]`) PyTorch does not
compare.
"""

from __future__ import annotations

from functools import lru_cache

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
    """Do two blocks of one tensor surely not overlap, if the tensor has at least this many blocks?"""
    first, second = one or (), other or ()
    if TURNED in first or TURNED in second:
        return False
    return any(_relations(*pair, least) == {"apart"} for pair in zip(first, second, strict=False))


def lie_apart(one: int | slice, other: int | slice) -> bool:
    """Have two indices of a dimension nothing in common, whatever its size?"""
    return _relations(one, other, 1) == {"apart"}


def _relations(
    one: int | slice | str | None, other: int | slice | str | None, least: int = _SIZES.start
) -> frozenset[str]:
    """How two indices of a dimension lie, whatever its size; nothing where that cannot be known."""
    if one is None or other is None or isinstance(one, str) or isinstance(other, str):
        return frozenset()
    return _relations_of(_chosen(one), _chosen(other), isinstance(one, slice) == isinstance(other, slice), least)


@lru_cache(maxsize=4096)
def _relations_of(one: _Chosen, other: _Chosen, alike: bool, least: int) -> frozenset[str]:
    found: set[str] = set()
    for first, second in zip(one[least:], other[least:], strict=True):
        if not first or not second:
            continue  # out of range
        if first == second:
            found.add("same" if alike else "overlap")
        else:
            found.add("overlap" if first & second else "apart")
    return frozenset(found)


_Chosen = tuple[int, ...]
"""For each size of a dimension, the elements that an index chooses, as bits."""


def _chosen(index: int | slice) -> _Chosen:
    if isinstance(index, slice):
        parts = index.start, index.stop, index.step
        return _chosen_by_slice(*parts) if all(part is None or isinstance(part, int) for part in parts) else _NOTHING
    return _chosen_by_number(int(index))


@lru_cache(maxsize=4096)
def _chosen_by_slice(start: int | None, stop: int | None, step: int | None) -> _Chosen:
    if step == 0:
        return _NOTHING
    return tuple(sum(1 << number for number in range(size)[start:stop:step]) for size in range(_SIZES.stop))


@lru_cache(maxsize=4096)
def _chosen_by_number(index: int) -> _Chosen:
    return tuple(1 << range(size)[index] if -size <= index < size else 0 for size in range(_SIZES.stop))


_NOTHING: _Chosen = (0,) * _SIZES.stop
