"""A line of Python as HTML: its words in colours, and stretches of it marked."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

_WORDS = re.compile(
    r"(?P<comment>#.*)"
    r"""|(?P<string>\b[rbfuRBFU]{0,2}(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))"""
    r"|(?P<number>\b\d[\w.]*)"
    rf"|(?P<keyword>\b(?:{'|'.join(keyword.kwlist)}|self)\b)"
)


@dataclass(frozen=True)
class Stretch:
    """The characters `start` up to `stop` of a line, and the class that marks them."""

    start: int
    stop: int
    look: str


def line(text: str, stretches: Sequence[Stretch] = ()) -> Markup:
    """The line; where stretches overlap the first one counts."""
    looks = _words(text)
    marks = [""] * len(text)
    for stretch in reversed(stretches):
        marks[stretch.start : stretch.stop] = [stretch.look] * len(marks[stretch.start : stretch.stop])
    pieces = groupby(range(len(text)), key=lambda place: (marks[place], looks[place]))
    return Markup("").join(_piece("".join(text[place] for place in places), *look) for look, places in pieces)


def without_comment(text: str) -> str:
    """The code of a line."""
    comments = [found.start() for found in _WORDS.finditer(text) if found.lastgroup == "comment"]
    return text[: comments[0]].rstrip() if comments else text


def _words(text: str) -> list[str]:
    looks = [""] * len(text)
    for found in _WORDS.finditer(text):
        looks[found.start() : found.end()] = [f"py-{found.lastgroup}"] * (found.end() - found.start())
    return looks


def _piece(text: str, mark: str, word: str) -> Markup:
    look = " ".join(filter(None, (mark, word)))
    if mark:
        return Markup('<mark class="{}">{}</mark>').format(look, text)
    return Markup('<span class="{}">{}</span>').format(look, text) if word else Markup("{}").format(text)
