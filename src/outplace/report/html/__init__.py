"""The report as a person would draw it: one page that needs nothing else, or a piece of one for a notebook.

Everything is made from diagnoses as data; torch is not needed, and the source files only for `fragment`.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outplace.files.writing import reason, replace_text
from outplace.model import Diagnosis
from outplace.report.excerpts import excerpts
from outplace.report.html import render
from outplace.report.html.rule_pages import RulePage, rule_page
from outplace.report.html.views import View, short_headline, view
from outplace.report.json import ReportError, read_diagnosis

_FOR_DIAGNOSES = 250_000
"""Bytes; with style, script and index no page of diagnoses has more than 400,000."""
_MOST_NAMED = 100
"""So many of the diagnoses that there is no room for are named, the others only counted."""


@dataclass(frozen=True)
class Section:
    """A further part of a page. `html` is inserted unchanged: its author must escape the texts of users."""

    title: str
    html: str


def page(report: Mapping[str, Any], extra: Sequence[Section] = ()) -> str:
    """A whole page from the data of `outplace run --json`."""
    sources = {
        file: {int(number): text for number, text in lines.items()} for file, lines in report.get("sources", {}).items()
    }
    entries = report["diagnoses"]
    diagnoses = [read_diagnosis(entry) for entry in entries]
    views = (
        view(diagnosis, sources, f"bug{number}", entry.get("ranks"))
        for number, (diagnosis, entry) in enumerate(zip(diagnoses, entries, strict=True), 1)
    )
    articles, rules = _within(views, len(diagnoses), "")
    return render.page(
        count=len(diagnoses),
        index=[(diagnose.code, short_headline(diagnose)) for diagnose in diagnoses[: len(articles) + _MOST_NAMED]],
        articles=articles,
        rules=rules,
        sections=extra,
        versions={"outplace": report["outplace"], "torch": report["torch"], "python": report.get("python")},
    )


def fragment(diagnoses: Sequence[Diagnosis]) -> str:
    """A piece of HTML with its own style and script, for the output of a notebook's cell."""
    prefix = f"op{secrets.token_hex(4)}"  # a notebook shows many of them in one document
    sources = excerpts(diagnoses)
    views = (
        view(diagnosis, sources, f"{prefix}-{number}", prefix=f"{prefix}-")
        for number, diagnosis in enumerate(diagnoses, 1)
    )
    articles, rules = _within(views, len(diagnoses), f"{prefix}-")
    return render.fragment(articles=articles, rules=rules, left_out=len(diagnoses) - len(articles), prefix=prefix)


def write(path: str | os.PathLike[str], report: Mapping[str, Any], extra: Sequence[Section] = ()) -> None:
    """Write the page to `path` in one step: a reader finds the old file or the whole new one."""
    target = Path(path)
    try:
        replace_text(target, page(report, extra))
    except OSError as error:
        raise ReportError(f"cannot write the report to {target}: {reason(target, error)}") from error


def _within(views: Iterable[View], count: int, prefix: str) -> tuple[list[str], list[RulePage]]:
    """As many diagnoses as there is room for, and the pages of their rules."""
    articles: list[str] = []
    rules: dict[str, RulePage] = {}
    room = _FOR_DIAGNOSES
    for item in views:
        article = render.article(item, len(articles) + 1, count)
        page_of_rule = None if item.code in rules else rule_page(prefix, item.code)
        room -= len(article.encode(errors="replace")) + len(page_of_rule.html.encode() if page_of_rule else b"")
        if room < 0:
            break
        articles.append(article)
        if page_of_rule:
            rules[item.code] = page_of_rule
    return articles, list(rules.values())
