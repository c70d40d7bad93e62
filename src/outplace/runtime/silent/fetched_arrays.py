"""The arrays that a dataset changes in place while a DataLoader fetches: `im = self.images[i]`, `im -= mean`.

An index of a numpy array is a view, so the next epoch finds what the last one has left, and changes it again.
"""

from __future__ import annotations

import ast
import weakref
from types import FrameType
from typing import Any, NamedTuple

from outplace.repair.syntax.code import root_of
from outplace.runtime.locate import sites
from outplace.runtime.record import untracked_aliases
from outplace.runtime.record.log import Instruction
from outplace.runtime.silent.operands import is_number

_MOST, _LARGEST, _SAMPLED = 512, 1 << 20, 1 << 10


class _Left(NamedTuple):
    """What a fetch has left in a part of an array, and the lines that wrote it."""

    owner: weakref.ref[Any]
    lines: list[Instruction]
    after: Any


class FetchedArrays:
    """Compares what a fetch does to an array with what an earlier fetch did to it."""

    def __init__(self) -> None:
        self._left: dict[tuple[int, tuple[int, ...]], _Left] = {}
        """By the address and the shape of the part."""
        self._now: dict[tuple[int, tuple[int, ...]], tuple[Any, Any, list[Instruction]]] = {}
        """In the fetch that runs: the part, a sample of what was there before, and the lines that write it."""
        self._changes: dict[Instruction, bool] = {}

    def note(self, array: Any, frame: FrameType) -> None:
        """An array is about to be written while a DataLoader fetches."""
        line = frame.f_code, frame.f_lasti
        if not self._is_change(line) or not untracked_aliases.is_array(array) or not 1 < array.size <= _LARGEST:
            return
        key = array.__array_interface__["data"][0], array.shape
        if key in self._now:
            self._now[key][2].append(line)
        elif len(self._now) < _MOST:
            self._now[key] = array, _sample(array), [line]

    def end(self) -> list[Instruction]:
        """The fetch ends. Returns the lines that have changed once more what an earlier fetch had changed."""
        found: dict[Instruction, None] = {}
        for key, (array, before, lines) in self._now.items():
            owner, after = untracked_aliases.owner_of(array), _sample(array)
            left = self._left.get(key)
            again = left is not None and left.owner() is owner and left.lines == lines
            if left is not None and again and _equal(left.after, before) and not _equal(before, after):
                found.update(dict.fromkeys(lines))
            if left is not None or len(self._left) < _MOST:
                try:
                    self._left[key] = _Left(weakref.ref(owner), lines, after)
                except TypeError:  # bytes and the like
                    continue
        self._now.clear()
        return list(found)

    def _is_change(self, line: Instruction) -> bool:
        """Does the line make new values of the old ones, or put a number in, under a name that is no attribute?"""
        known = self._changes.get(line)
        if known is None:
            known = self._changes[line] = _changes(sites.at_instruction(line).statement)
        return known


def _changes(statement: ast.stmt | None) -> bool:
    target: ast.expr | None = None
    if isinstance(statement, ast.AugAssign):
        target = statement.target if not isinstance(statement.op, ast.Add) else None
    elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
        target = statement.targets[0]
        name = ast.unparse(root_of(target))
        own = any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(statement.value))
        target = target if own or is_number(statement.value) else None
    return target is not None and isinstance(root_of(target), ast.Name)


def _sample(array: Any) -> Any:
    flat = array.reshape(-1)
    return flat[:: max(1, flat.size // _SAMPLED)].copy()


def _equal(one: Any, other: Any) -> bool:
    return bool(one.shape == other.shape and ((one == other) | ((one != one) & (other != other))).all())
