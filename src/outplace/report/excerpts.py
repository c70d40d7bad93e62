"""The source lines around all sites of diagnoses, for reports that are shown without the files."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator, Sequence

from outplace.model import Diagnosis, Site

CONTEXT = 3
_LONGEST = 400

Lines = dict[int, str]


def excerpts(diagnoses: Sequence[Diagnosis]) -> dict[str, Lines]:
    """By file: the lines around each site, by number; nothing for files that cannot be read."""
    wanted: dict[str, set[int]] = {}
    for site in (site for diagnosis in diagnoses for site in sites(diagnosis)):
        wanted.setdefault(site.file, set()).update(range(site.line - CONTEXT, site.end_line + CONTEXT + 1))
    return {file: lines for file, numbers in wanted.items() if (lines := _lines(file, numbers))}


def _lines(file: str, numbers: set[int]) -> Lines:
    texts = linecache.getlines(file)
    known = sorted(number for number in numbers if 0 < number <= len(texts))
    return {number: texts[number - 1].rstrip("\r\n")[:_LONGEST] for number in known}


def sites(diagnosis: Diagnosis) -> Iterator[Site]:
    """Every site of a diagnosis."""
    return (site for site in _all(diagnosis) if site is not None)


def _all(diagnosis: Diagnosis) -> Iterable[Site | None]:
    yield from (diagnosis.made_at, diagnosis.kept_at, diagnosis.used_at)
    for saved in (diagnosis.saved_by, *diagnosis.also_saved_by):
        yield from (saved.site, *saved.chain) if saved else ()
    for mutation in diagnosis.mutations:
        yield mutation.site
        yield from mutation.chain
    yield diagnosis.raised_at
    for node in diagnosis.graph.nodes if diagnosis.graph else ():
        yield node.site
