"""Text edits, which make up a fix, and their diff. Text that is not edited stays unchanged, every blank included."""

from __future__ import annotations

import ast
import difflib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from outplace.files.quiet import quietly


@dataclass(frozen=True, order=True)
class Edit:
    """Replaces the characters from `start` up to `end` by `text`. If both are equal, it inserts."""

    start: int
    end: int
    text: str


class Conflict(ValueError):
    """Two edits overlap."""


def apply(source: str, edits: Iterable[Edit]) -> str:
    """The source with all edits applied. If they conflict, raises an exception and applies none."""
    result: list[str] = []
    position = 0
    last: Edit | None = None
    for edit in sorted(set(edits)):
        if not 0 <= edit.start <= edit.end <= len(source):
            raise Conflict(f"an edit lies outside the source: {edit}")
        if edit.start < position or (last is not None and last.start == edit.start == last.end == edit.end):
            raise Conflict(f"two edits overlap: {last} and {edit}")
        result += [source[position : edit.start], edit.text]
        position, last = edit.end, edit
    return "".join(result) + source[position:]


def united(edits_of_each: Iterable[Mapping[str, Sequence[Edit]]]) -> dict[str, tuple[Edit, ...]]:
    """The edits of several changes by file, each edit once."""
    edits: dict[str, dict[Edit, None]] = {}
    for edits_of_one in edits_of_each:
        for path, changes in edits_of_one.items():
            edits.setdefault(path, {}).update(dict.fromkeys(changes))
    return {path: tuple(changes) for path, changes in edits.items()}


def parses(source: str) -> bool:
    """Is it still valid Python?"""
    with quietly():
        try:
            ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def unified_diff(name: str, old: str, new: str, context: int = 3) -> str:
    """The diff between two texts; empty if they are equal."""
    before, after = _lines_of(old), _lines_of(new)
    same = equal_at_start(before, after)
    rest = equal_at_start(before[same:][::-1], after[same:][::-1])
    start, cut = max(same - context, 0), max(rest - context, 0)
    # Without the equal ends: `difflib` gives up lines that occur often, and takes much time for many lines.
    around = before[start : len(before) - cut], after[start : len(after) - cut]
    lines = (_moved(line, start) for line in difflib.unified_diff(*around, *both_names(name), n=context))
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def equal_at_start(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines at the start are equal."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((count for count, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))


def _moved(line: str, by: int) -> str:
    """The head of a hunk with its line numbers moved; any other line as it is."""
    return _HUNK.sub(lambda found: f"@@ -{int(found[1]) + by}{found[2]} +{int(found[3]) + by}", line)


_HUNK = re.compile(r"^@@ -(\d+)(\S*) \+(\d+)")


def both_names(name: str) -> tuple[str, str]:
    """The names of the old and the new file in the header: `a/train.py` and `b/train.py`, or a whole path twice."""
    plain = name.replace(os.sep, "/")
    return (name, name) if os.path.isabs(name) else (f"a/{plain}", f"b/{plain}")


def _lines_of(text: str) -> list[str]:
    return [line + "\n" for line in text.split("\n")[:-1]] + (
        [text.rsplit("\n", 1)[-1]] if not text.endswith("\n") and text else []
    )
