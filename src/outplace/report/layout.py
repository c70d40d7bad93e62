"""Wrapping and indenting of styled text."""

from __future__ import annotations

import io

from rich.console import Console
from rich.text import Text

# Text.wrap asks a console only for its defaults; nothing is ever written to this one.
_PLAIN = Console(file=io.StringIO(), color_system=None)


def wrap(text: Text, width: int) -> list[Text]:
    """`text` in lines of at most `width` cells, broken between words where that is possible."""
    lines = list(text.wrap(_PLAIN, max(width, 1), overflow="fold"))
    for line in lines:
        line.rstrip()
    return lines


def indented(text: Text, cells: int) -> Text:
    """`text` moved to the right."""
    return Text.assemble(" " * cells, text)


def hanging(first: Text, body: Text, width: int, indent: int) -> list[Text]:
    """`body` wrapped beside `first`, its further lines under its own beginning."""
    lines = wrap(body, width - indent) or [Text()]
    gap = " " * max(indent - first.cell_len, 1)
    return [Text.assemble(first, gap, lines[0]), *(indented(line, indent) for line in lines[1:])]
