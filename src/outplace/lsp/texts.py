"""Texts as the protocol sees them: lines that end where editors end them, columns in the client's units, edits."""

from __future__ import annotations

import difflib
import io
from collections.abc import Sequence

from lsprotocol import types
from pygls.workspace import PositionCodec

from outplace.model import Site


def plain(text: str) -> str:
    """The text with `\\n` line ends, as the analysis wants it."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def lines(text: str) -> list[str]:
    """The lines with their ends. Form feeds and their kin end none, as in editors and unlike `str.splitlines`."""
    return io.StringIO(text, newline="").readlines() if text else []


def position(text_lines: Sequence[str], line: int, column: int, codec: PositionCodec) -> types.Position:
    """A line and a column, both from 0, the column in characters, as the client counts."""
    shown = text_lines[line] if 0 <= line < len(text_lines) else ""
    return types.Position(line, codec.client_num_units(shown[:column]))


def range_of(site: Site, text: str, codec: PositionCodec) -> types.Range:
    """Where a site stands in its text."""
    own = lines(text)
    return types.Range(
        position(own, site.line - 1, site.column, codec), position(own, site.end_line - 1, site.end_column, codec)
    )


def edits(old: str, new: str, codec: PositionCodec) -> list[types.TextEdit]:
    """The edits that turn a document into a new text with `\\n` line ends: whole lines, and only those that change."""
    before = lines(old)
    ends = "\r\n" if "\r\n" in old else "\n"
    after = [line.replace("\n", ends) for line in lines(new)]
    start = _common(before, after)
    rest = min(len(before), len(after)) - start
    end = _common(before[::-1][:rest], after[::-1][:rest])
    matcher = difflib.SequenceMatcher(
        None, before[start : len(before) - end], after[start : len(after) - end], autojunk=False
    )
    made = []
    for tag, first, last, new_first, new_last in matcher.get_opcodes():
        if tag != "equal":
            where = types.Range(_line_start(before, start + first, codec), _line_start(before, start + last, codec))
            made.append(types.TextEdit(where, "".join(after[start + new_first : start + new_last])))
    return made


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines are the same from the beginning on."""
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    return same


def _line_start(text_lines: Sequence[str], line: int, codec: PositionCodec) -> types.Position:
    """The start of a line; behind a last line that has no end, the end of that line."""
    if line == len(text_lines) and text_lines and not text_lines[-1].endswith(("\n", "\r")):
        return position(text_lines, line - 1, len(text_lines[-1]), codec)
    return types.Position(line, 0)
