"""A unified diff, shown with line numbers instead of its own headers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from outplace.files import naming
from outplace.report.glyphs import Glyphs, lay_out
from outplace.report.layout import wrap

CONTEXT = 1

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_STYLES = {"+": "green", "-": "red", " ": "dim"}


@dataclass(frozen=True)
class DiffLine:
    """A line of a diff: its sign, its number in the file it stands in, its text.

    Two signs are not the diff's own: "f" for the name of a file, "@" for lines left out.
    """

    sign: str
    number: int | None
    text: str


def parse(diff: str) -> Iterator[DiffLine]:
    """The files and the lines of their hunks, without what only a patch needs."""
    old = new = 0
    old_left = new_left = 0
    for line in diff.splitlines():
        hunk = _HUNK.match(line)
        if old_left > 0 or new_left > 0:
            sign = line[:1] or " "  # some editors strip the blank of an empty context line
            if sign not in _STYLES:
                continue
            yield DiffLine(sign, old if sign == "-" else new, line[1:])
            old, old_left = old + (sign != "+"), old_left - (sign != "+")
            new, new_left = new + (sign != "-"), new_left - (sign != "-")
        elif hunk:
            old, new = int(hunk[1]), int(hunk[3])
            old_left, new_left = int(hunk[2] or 1), int(hunk[4] or 1)
            yield DiffLine("@", None, "")
        elif line.startswith("+++ "):
            yield DiffLine("f", None, line[4:].split("\t")[0].strip().removeprefix("b/"))


def condense(lines: Sequence[DiffLine]) -> list[DiffLine]:
    """Only the context next to a change, and a mark between stretches: the snippets above have shown the rest."""
    kept: list[DiffLine] = []
    for index, line in enumerate(lines):
        changed = any(near.sign in ("+", "-") for near in lines[max(index - CONTEXT, 0) : index + CONTEXT + 1])
        padding = line.sign == " " and not line.text.strip()
        if line.sign in ("+", "-", "f") or (line.sign == " " and changed and not padding):
            kept.append(line)
        elif line.sign in ("@", " ") and kept and kept[-1].sign not in ("@", "f") and not (padding and changed):
            kept.append(DiffLine("@", None, ""))
    while kept and kept[-1].sign == "@":
        kept.pop()
    return kept


_LONGEST = 2000


def render_diff(diff: str, width: int, glyphs: Glyphs) -> Iterator[Text]:
    """The diff's lines. Other text is shown unchanged."""
    lines = condense(list(parse(diff))) or [DiffLine("", None, line) for line in diff.splitlines()]
    digits = max((len(str(line.number)) for line in lines if line.number), default=0)
    texts = [lay_out(_readable(line.text), glyphs).text.rstrip() for line in lines]
    code = [text for line, text in zip(lines, texts, strict=True) if line.sign in _STYLES and text]
    margin = min((len(text) - len(text.lstrip(" ")) for text in code), default=0)
    for line, text in zip(lines, texts, strict=True):
        if line.sign == "@":
            yield Text(f"{glyphs.skip:>{max(digits, 1)}}", style="dim")
        elif line.sign == "f":
            yield from wrap(Text(glyphs.clean(naming.path(text)), style="dim"), width)
        else:
            yield from _rows(line, text[margin:], width, digits)


def _readable(text: str) -> str:
    """A line, shortened: a program may have lines of several megabytes."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def _rows(line: DiffLine, text: str, width: int, digits: int) -> Iterator[Text]:
    """A long line is folded, not cut: a fix must be readable to its end."""
    style = _STYLES.get(line.sign, "dim")
    number = f"{line.number or '':>{digits}} " if digits else ""
    sign = f"{line.sign} " if line.sign else ""
    for nth, piece in enumerate(wrap(Text(text, style=style), width - len(number) - len(sign)) or [Text()]):
        row = Text.assemble((number if not nth else " " * len(number), "dim"), (sign, style), piece)
        row.rstrip()
        yield row


def print_diff(diff: str, console: Console) -> None:
    """Prints a unified diff as it is, in colours."""
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in diff.splitlines():
        console.print(Text(line, style=styles.get(line[:1], "")), soft_wrap=True)
