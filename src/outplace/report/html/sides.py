"""A unified diff as two columns, before and after."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import zip_longest

from markupsafe import Markup

from outplace.files import naming
from outplace.report.diff import DiffLine, condense, parse
from outplace.report.html import highlight
from outplace.report.html.highlight import Stretch

MOST_ROWS = 120
_LONGEST = 400


@dataclass(frozen=True)
class Side:
    """One line on one side."""

    number: int | None
    code: Markup
    changed: bool


@dataclass(frozen=True)
class Row:
    """Two lines beside each other; a row with a `title` names a file, one with neither stands for lines left out."""

    before: Side | None = None
    after: Side | None = None
    title: str = ""


def rows(diff: str) -> list[Row]:
    """The rows of a diff; none where the text is no unified diff."""
    lines = condense([replace(line, text=line.text[:_LONGEST]) for line in parse(diff)])
    margin = min((_indent(line.text) for line in lines if line.sign in "+- " and line.text.strip()), default=0)
    return list(_rows(lines, margin))[:MOST_ROWS]


def new_lines(diff: str) -> str:
    """What to paste over the old lines."""
    return "".join(f"{line.text}\n" for line in parse(diff) if line.sign == "+")


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _rows(lines: Sequence[DiffLine], margin: int) -> Iterator[Row]:
    shift = 0
    old: list[DiffLine] = []
    new: list[DiffLine] = []
    for line in [*lines, DiffLine("end", None, "")]:
        if line.sign == "-" and not new:
            old.append(line)
            continue
        if line.sign == "+":
            new.append(line)
            continue
        yield from _beside(old, new, margin)
        shift += len(new) - len(old)
        old, new = [], []
        if line.sign == "-":
            old.append(line)
        elif line.sign == "f":
            shift = 0
            yield Row(title=naming.document(line.text))
        elif line.sign == "@":
            yield Row()
        elif line.sign == " " and line.number is not None:
            code = highlight.line(line.text[margin:])
            yield Row(Side(line.number - shift, code, False), Side(line.number, code, False))


def _beside(old: Sequence[DiffLine], new: Sequence[DiffLine], margin: int) -> Iterator[Row]:
    for before, after in zip_longest(old, new):
        here = before.text[margin:] if before else ""
        there = after.text[margin:] if after else ""
        gone, come = _differences(here, there) if before and after else ([], [])
        yield Row(
            Side(before.number, highlight.line(here, gone), True) if before else None,
            Side(after.number, highlight.line(there, come), True) if after else None,
        )


def _differences(old: str, new: str) -> tuple[list[Stretch], list[Stretch]]:
    """The words that changed, on both sides; nothing where little is the same."""
    olds, news = re.findall(r"\w+|\s+|.", old), re.findall(r"\w+|\s+|.", new)
    matcher = SequenceMatcher(None, olds, news, autojunk=False)
    if matcher.ratio() < 0.4:
        return [], []
    gone, come = [], []
    for what, a, b, c, d in matcher.get_opcodes():
        if what != "equal":
            gone.append(Stretch(len("".join(olds[:a])), len("".join(olds[:b])), "gone"))
            come.append(Stretch(len("".join(news[:c])), len("".join(news[:d])), "come"))
    return gone, come
