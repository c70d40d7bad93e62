"""The characters that the output can show, and how the user's text is made safe to print."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from rich.cells import cell_len

TAB = 4

# Near enough in ASCII that a reader does not stumble; everything else becomes "?".
_ASCII = {
    "→": "->",
    "×": "x",
    "…": "...",
    "–": "-",
    "—": "-",
    "─": "-",
    "│": "|",
    "‘": "'",
    "’": "'",
    "“": '"',
    "”": '"',
    "µ": "u",
    "≤": "<=",
    "≥": ">=",
}


@dataclass(frozen=True)
class Glyphs:
    """The drawing characters of a report, and the encoding of the output."""

    encoding: str
    bar: str
    skip: str
    dots: str
    times: str
    arrow: str
    link: str
    saved: str
    overwritten: str
    raised: str

    def clean(self, text: str) -> str:
        """`text` on one line, without control characters and with nothing that the stream cannot encode."""
        return "".join(self.show(char) for char in text)

    def show(self, char: str) -> str:
        """The replacement for one character of the user's text."""
        return " " if char in "\t\n\r" else _show(char, self.encoding)


def for_encoding(encoding: str) -> Glyphs:
    """Box-drawing characters where `encoding` has all of them, ASCII otherwise."""
    fancy = Glyphs(encoding, "│", "⋮", "…", "×", "→", "──", "─", "^", "~")
    used = "".join(value for name, value in vars(fancy).items() if name != "encoding")
    return fancy if _encodable(used, encoding) else Glyphs(encoding, "|", ":", "...", "x", "->", "--", "-", "^", "~")


def _encodable(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeError, LookupError):
        return False
    return True


@lru_cache(maxsize=4096)
def _show(char: str, encoding: str) -> str:
    """A printable stand-in: escapes must not reach the terminal, nor marks that reorder or hide what follows."""
    code = ord(char)
    # U+200D joins emoji and U+FE0F picks their look; other format characters hide or reorder text.
    category = unicodedata.category(char)
    if category in ("Cc", "Cs", "Zl", "Zp") or (category == "Cf" and char != "\u200d"):
        char = chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"
    if _encodable(char, encoding):
        return char
    return _ASCII.get(char, "?" * max(cell_len(char), 1))


@dataclass(frozen=True)
class Line:
    """A source line as it is shown; `cells[i]` is the cell where its i-th source character starts, the last its end."""

    text: str
    cells: tuple[int, ...]

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """The cells of the source characters `start` up to `stop`, at least one cell."""
        last = len(self.cells) - 1
        left = self.cells[min(start, last)]
        return left, max(self.cells[min(stop, last)], left + 1)


_LONGEST = 100_000
"""Characters of a line that are laid out. Some generated lines have millions."""


def lay_out(source: str, glyphs: Glyphs) -> Line:
    """Expand tabs, neutralise control characters, and remember in which cell each character went."""
    shown: list[str] = []
    cells = [0]
    for char in source.rstrip("\r\n")[:_LONGEST]:
        piece = " " * (TAB - cells[-1] % TAB) if char == "\t" else glyphs.show(char)
        shown.append(piece)
        cells.append(cells[-1] + cell_len(piece))
    return Line("".join(shown), tuple(cells))


def window(text: str, start: int, stop: int) -> str:
    """The cells `start` up to `stop` of `text`; a wide character cut in half leaves a blank."""
    shown: list[str] = []
    cell = 0
    for char in text:
        width = cell_len(char)
        if start <= cell and cell + width <= stop:
            shown.append(char)
        elif start < cell + width and cell < stop:
            shown.append(" " * (min(cell + width, stop) - max(cell, start)))
        cell += width
    return "".join(shown)
