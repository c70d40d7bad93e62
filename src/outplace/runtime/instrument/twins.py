"""The marked twin of code that was loaded without marks.

The source is compiled twice, without marks and with them. Both results hold the same functions in the same order, so
they are paired. Code that is loaded has a twin if it equals its plain half: the source is then the one that it was
compiled from. Code from a file that has changed since, and code that something has rewritten, has no twin.
"""

from __future__ import annotations

import ast
import linecache
import operator
import os
from collections import Counter
from collections.abc import Iterator
from sys import getrefcount
from types import CodeType
from typing import Any

from outplace.files.quiet import quietly
from outplace.runtime.instrument.calls import STATEMENTS
from outplace.runtime.instrument.loading import UNCOMPILABLE, add_marks

_Stamp = tuple[int, int] | int | None
"""Tells whether a source has changed: the time and the size of its file, or the hash of a cell's text."""

_twins: dict[int, tuple[CodeType, CodeType | None, _Stamp]] = {}
"""By the identity of the loaded code, which is kept alive, so that the identity is not reused."""

_Name = tuple[str, int]
_Pair = tuple[CodeType, CodeType]
_pairs: dict[str, tuple[_Stamp, dict[_Name, list[_Pair]]]] = {}
"""By file name: its plain and marked code objects, by name and first line."""

_kept: list[_Pair] = []
"""All pairs that were ever made: marked code may still be in use when its file has changed."""


def is_marked(code: CodeType) -> bool:
    """Does this code call marks? Every function with marks does, if only where it returns."""
    return any(name.startswith("__outplace_") for name in code.co_names)


def twin_of(code: CodeType) -> CodeType | None:
    """The same code with marks; the code itself if it has them; None if its source is not known for certain."""
    if is_marked(code):
        return code
    known = _twins.get(id(code))
    if known is not None and (known[1] is not None or known[2] == _stamp(code.co_filename)):
        return known[1]
    stamp = _stamp(code.co_filename)
    found = [marked for plain, marked in _pairs_at(code, stamp) if _is_same(plain, code)]
    twin = found[0] if found else None
    _twins[id(code)] = (code, twin, stamp)
    return twin


def without_marks(value: Any) -> Any:
    """The same value for a place where marks have no names: each code object with marks becomes its plain half.

    Code keeps its marks if its file has changed since, or if two functions of it cannot be told apart.
    """
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        items = [without_marks(item) for item in value]
        return value if all(map(operator.is_, items, value)) else type(value)(items)
    if not isinstance(value, CodeType):
        return value
    if is_marked(value):
        pairs = _kept + _pairs_at(value, _stamp(value.co_filename))
        exact = [plain for plain, marked in pairs if marked is value]
        same = exact or [plain for plain, marked in pairs if _is_at_same_place(marked, value)]
        return same[0] if same and all(_is_same(plain, same[0]) for plain in same) else value
    constants = without_marks(value.co_consts)
    return value if constants is value.co_consts else value.replace(co_consts=constants)


def _is_at_same_place(one: CodeType, other: CodeType) -> bool:
    """Do the instructions of two marked codes come from the same text? Their marks have other numbers."""
    if (*_name(one), one.co_filename) != (*_name(other), other.co_filename):
        return False
    positions = getattr(CodeType, "co_positions", CodeType.co_lines)  # Python 3.10 has lines only
    return list(positions(one)) == list(positions(other))


_made = [0]
"""How many entries of `STATEMENTS` were made here."""


def in_use() -> bool:
    """Can marked code still run? Its marks then need their names."""
    if len(STATEMENTS) > _made[0]:  # a module was imported with marks
        return True
    known = Counter(id(twin) for _, twin, _ in _twins.values())
    # One reference is the pair's, one the argument's, and one that of the code around it.
    return any(getrefcount(pair[1]) > 3 - (pair[1].co_name == "<module>") + known[id(pair[1])] for pair in _kept)


def _stamp(filename: str) -> _Stamp:
    try:
        status = os.stat(filename)
    except (OSError, ValueError):
        lines = linecache.getlines(filename)
        return hash("".join(lines)) if lines else None
    return status.st_mtime_ns, status.st_size


def _pairs_at(code: CodeType, stamp: _Stamp) -> list[_Pair]:
    if stamp is None:
        return []
    filename = code.co_filename
    if filename not in _pairs or _pairs[filename][0] != stamp:
        by_name: dict[_Name, list[_Pair]] = {}
        for pair in _compiled(filename):
            by_name.setdefault(_name(pair[0]), []).append(pair)
            _kept.append(pair)
        _pairs[filename] = (stamp, by_name)
    return _pairs[filename][1].get(_name(code), [])


def _compiled(filename: str) -> list[_Pair]:
    """The code objects of a file without marks and with them."""
    try:
        with quietly():
            tree = ast.parse(_source(filename), filename)
            plain = compile(tree, filename, "exec", dont_inherit=True)
            before = len(STATEMENTS)
            add_marks(tree, filename)
            _made[0] += len(STATEMENTS) - before
            marked = compile(tree, filename, "exec", dont_inherit=True)
    except UNCOMPILABLE:
        return []
    return list(_paired(plain, marked))


def _source(filename: str) -> str | bytes:
    if os.path.isfile(filename):
        with open(filename, "rb") as file:
            return file.read()
    return "".join(linecache.getlines(filename))


def _paired(plain: CodeType, marked: CodeType) -> Iterator[_Pair]:
    if plain.co_freevars == marked.co_freevars and plain.co_cellvars == marked.co_cellvars:
        yield plain, marked
    ones, others = _inside(plain), [code for code in _inside(marked) if not _is_added(code)]
    if list(map(_name, ones)) == list(map(_name, others)):
        for one, other in zip(ones, others, strict=True):
            yield from _paired(one, other)


def _inside(code: CodeType) -> list[CodeType]:
    return [item for item in code.co_consts if isinstance(item, CodeType)]


def _name(code: CodeType) -> _Name:
    return code.co_name, code.co_firstlineno


def _is_added(code: CodeType) -> bool:
    """Is it the function around a mark in the body of a class?"""
    return code.co_name == "<lambda>" and len(code.co_names) == 1 and code.co_names[0].startswith("__outplace_")


def _is_same(one: CodeType, other: CodeType) -> bool:
    """Are they equal, with the same lines? Python 3.11 and older do not compare lines."""
    if one != other or list(one.co_lines()) != list(other.co_lines()):
        return False
    inside = zip(_inside(one), _inside(other), strict=True)
    return all(_is_same(*pair) for pair in inside)
