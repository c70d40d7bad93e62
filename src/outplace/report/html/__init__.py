"""The report as a person would draw it: one page that needs nothing else, or a piece of one for a notebook.

Everything is made from diagnoses as data; torch is not needed, and the source files only for `fragment`.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outplace.model import Diagnosis
from outplace.report.excerpts import excerpts
from outplace.report.html import render
from outplace.report.html.views import View, view
from outplace.report.json import ReportError, read_diagnosis
from outplace.writing import reason, replace_text

LARGEST = 400_000
"""No page has more bytes than this."""

_FOR_THE_FRAME = 60_000
_BRIEF = 200


@dataclass(frozen=True)
class Section:
    """A further part of a page. `html` is put in as it stands: whoever makes it escapes what users wrote."""

    title: str
    html: str


def page(report: Mapping[str, Any], extra: Sequence[Section] = ()) -> str:
    """A whole page from the data of `outplace run --json`."""
    sources = {
        file: {int(number): text for number, text in lines.items()} for file, lines in report.get("sources", {}).items()
    }
    views = [
        view(read_diagnosis(entry), sources, f"bug{number}", entry.get("ranks"))
        for number, entry in enumerate(report["diagnoses"], 1)
    ]
    room = LARGEST - _FOR_THE_FRAME - sum(len(section.html.encode(errors="replace")) for section in extra)
    articles, brief = _within(views, room)
    return render.page(
        articles=articles,
        brief=brief[:_BRIEF],
        untold=len(brief[_BRIEF:]),
        views=views[: len(articles) + _BRIEF],
        sections=extra,
        versions={"outplace": report["outplace"], "torch": report["torch"]},
    )


def fragment(diagnoses: Sequence[Diagnosis]) -> str:
    """A piece of HTML with its own style and script, for the output of a notebook's cell."""
    prefix = f"op{secrets.token_hex(4)}"  # a notebook shows many of them in one document
    sources = excerpts(diagnoses)
    views = [view(diagnosis, sources, f"{prefix}-{number}") for number, diagnosis in enumerate(diagnoses, 1)]
    articles, brief = _within(views, LARGEST - _FOR_THE_FRAME)
    return render.fragment(articles=articles, brief=brief[:_BRIEF], untold=len(brief[_BRIEF:]), prefix=prefix)


def write(path: str | os.PathLike[str], report: Mapping[str, Any], extra: Sequence[Section] = ()) -> None:
    """Write the page to `path` in one step: a reader finds the old file or the whole new one."""
    target = Path(path)
    try:
        replace_text(target, page(report, extra))
    except OSError as error:
        raise ReportError(f"cannot write the report to {target}: {reason(target, error)}") from error


def _within(views: Sequence[View], room: int) -> tuple[list[str], list[View]]:
    """As many diagnoses as there is room for in full; the others are only named."""
    articles: list[str] = []
    for number, one in enumerate(views):
        article = render.article(one, number + 1, len(views))
        room -= len(article.encode(errors="replace"))
        if room < 0:
            return articles, list(views[number:])
        articles.append(article)
    return articles, []
