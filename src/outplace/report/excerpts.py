"""The source around all that diagnoses point at, so that a report can be shown where the files are not."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator, Sequence

from outplace.model import Diagnosis, Site

CONTEXT = 3
_LONGEST = 400

Lines = dict[int, str]


def excerpts(diagnoses: Sequence[Diagnosis]) -> dict[str, Lines]:
    """By file: the lines around each site, by number; nothing for files that cannot be read."""
    found: dict[str, Lines] = {}
    for site in (site for diagnosis in diagnoses for site in sites(diagnosis)):
        lines = found.setdefault(site.file, {})
        for number in range(max(site.line - CONTEXT, 1), site.end_line + CONTEXT + 1):
            text = linecache.getline(site.file, number)
            if text and number not in lines:
                lines[number] = text.rstrip("\r\n")[:_LONGEST]
    return {file: dict(sorted(lines.items())) for file, lines in found.items() if lines}


def sites(diagnosis: Diagnosis) -> Iterator[Site]:
    """Every place that a diagnosis names."""
    return (site for site in _all(diagnosis) if site is not None)


def _all(diagnosis: Diagnosis) -> Iterable[Site | None]:
    yield diagnosis.made_at
    for saved in (diagnosis.saved_by, *diagnosis.also_saved_by):
        yield saved.site if saved else None
    for mutation in diagnosis.mutations:
        yield mutation.site
        yield from mutation.chain
    yield diagnosis.raised_at
    for node in diagnosis.graph.nodes if diagnosis.graph else ():
        yield node.site
