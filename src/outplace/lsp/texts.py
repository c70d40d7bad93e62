"""Lines, columns and edits in the units of the Language Server Protocol."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from lsprotocol import types
from pygls.workspace import PositionCodec

from outplace.files.reading import lines
from outplace.model import Site
from outplace.repair.syntax.edits import equal_at_start


def plain(text: str) -> str:
    """The text with `\\n` line ends, for the analysis."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def position(text_lines: Sequence[str], line: int, column: int, codec: PositionCodec) -> types.Position:
    """The client's position for a line and a column (in characters), both counted from 0."""
    text = text_lines[line] if 0 <= line < len(text_lines) else ""
    return types.Position(line, codec.client_num_units(text[:column]))


def range_of(site: Site, text: str, codec: PositionCodec) -> types.Range:
    """The range of a site in its text."""
    text_lines = lines(text)
    return types.Range(
        position(text_lines, site.line - 1, site.column, codec),
        position(text_lines, site.end_line - 1, site.end_column, codec),
    )


def edits(old: str, new: str, codec: PositionCodec) -> list[types.TextEdit]:
    """The edits that change a document into a new text with `\\n` line ends: only the changed lines, each whole."""
    before = lines(old)
    ends = "\r\n" if "\r\n" in old else "\n"
    after = [line.replace("\n", ends) for line in lines(new)]
    start = equal_at_start(before, after)
    rest = min(len(before), len(after)) - start
    end = equal_at_start(before[::-1][:rest], after[::-1][:rest])
    matcher = difflib.SequenceMatcher(
        None, before[start : len(before) - end], after[start : len(after) - end], autojunk=False
    )
    changes = []
    for tag, first, last, new_first, new_last in matcher.get_opcodes():
        if tag != "equal":
            where = types.Range(_line_start(before, start + first, codec), _line_start(before, start + last, codec))
            changes.append(types.TextEdit(where, "".join(after[start + new_first : start + new_last])))
    return changes


def _line_start(text_lines: Sequence[str], line: int, codec: PositionCodec) -> types.Position:
    """The start of a line; after a last line without a line end, the end of that line."""
    if line == len(text_lines) and text_lines and not text_lines[-1].endswith(("\n", "\r")):
        return position(text_lines, line - 1, len(text_lines[-1]), codec)
    return types.Position(line, 0)
