"""A unified diff, shown with line numbers instead of its own headers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rich.text import Text

from outplace.report.glyphs import Glyphs, lay_out
from outplace.report.layout import wrap

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_STYLES = {"+": "green", "-": "red", " ": "dim"}


@dataclass(frozen=True)
class DiffLine:
    """A line of a diff: its sign, its number in the file it stands in, its text. A hunk's end has no number."""

    sign: str
    number: int | None
    text: str


def parse(diff: str) -> Iterator[DiffLine]:
    """The lines of all hunks. File headers and "no newline" remarks are left out."""
    old = new = 0
    inside = False
    for line in diff.splitlines():
        hunk = _HUNK.match(line)
        if hunk:
            if inside:
                yield DiffLine("@", None, "")
            old, new, inside = int(hunk[1]), int(hunk[2]), True
        elif line.startswith("--- ") and not inside:
            continue
        elif inside and line[:1] in ("", " ", "+", "-"):
            sign = line[:1] or " "
            yield DiffLine(sign, old if sign == "-" else new, line[1:])
            old, new = old + (sign != "+"), new + (sign != "-")


def render_diff(diff: str, width: int, glyphs: Glyphs) -> Iterator[Text]:
    """The diff's lines; text that is no unified diff is shown as it stands."""
    lines = list(parse(diff)) or [DiffLine(line[:1], None, line[1:]) for line in diff.splitlines()]
    digits = max((len(str(line.number)) for line in lines if line.number), default=0)
    texts = [lay_out(line.text, glyphs).text.rstrip() for line in lines]
    margin = min((len(text) - len(text.lstrip(" ")) for text in texts if text), default=0)
    for line, text in zip(lines, texts, strict=True):
        if line.sign == "@":
            yield Text(f"{glyphs.skip:>{max(digits, 1)}}", style="dim")
            continue
        yield from _rows(line, text[margin:], width, digits)


def _rows(line: DiffLine, text: str, width: int, digits: int) -> Iterator[Text]:
    """A long line is folded, not cut: a fix must be readable to its end."""
    style = _STYLES.get(line.sign, "dim")
    number = f"{line.number or '':>{digits}} " if digits else ""
    for nth, piece in enumerate(wrap(Text(text, style=style), width - len(number) - 2) or [Text()]):
        row = Text.assemble((number if not nth else " " * len(number), "dim"), (f"{line.sign} ", style), piece)
        row.rstrip()
        yield row
