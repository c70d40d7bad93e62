"""The text report: in a terminal, a log, or an exception's note."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from outplace.model import Diagnosis, Fix
from outplace.report import words
from outplace.report.diff import render_diff
from outplace.report.glyphs import Glyphs, for_encoding
from outplace.report.layout import hanging, indented, wrap
from outplace.report.places import STYLES, places
from outplace.report.snippet import Snippet, group, number_width
from outplace.report.timeline import timeline

NARROWEST = 24
INDENT = 2
KEYS = 6
"""The width of the column that holds why, note and fix."""

_SAFETY = {"safe": "safe", "unsafe": "unsafe: look it over", "suggestion": "suggestion"}


def render(diagnoses: Sequence[Diagnosis], console: Console) -> None:
    """Print the report to `console`, in what its stream can show, in one piece: other ranks write there too."""
    with console:
        for line in _report(diagnoses, max(console.width, NARROWEST), for_encoding(console.encoding)):
            console.print(line, soft_wrap=True)  # it is laid out already: rich must not wrap or crop it again


def as_text(diagnoses: Sequence[Diagnosis], width: int = 100, encoding: str = "utf-8") -> str:
    """The report as plain text, for `exc.add_note`, logs and CI."""
    lines = _report(diagnoses, max(width, NARROWEST), for_encoding(encoding))
    return "\n".join(line.plain.rstrip() for line in lines)


def _report(diagnoses: Sequence[Diagnosis], width: int, glyphs: Glyphs) -> Iterator[Text]:
    for number, diagnosis in enumerate(diagnoses, 1):
        if number > 1:
            yield Text()
        order = f"{number}/{len(diagnoses)} " if len(diagnoses) > 1 else ""
        yield from _headline(diagnosis, order, width, glyphs)
        for block in _blocks(diagnosis, width - INDENT, glyphs):
            yield Text()
            yield from (indented(line, INDENT if line else 0) for line in block)
    if diagnoses:
        yield Text()
        yield from wrap(Text(glyphs.clean(_summary(diagnoses, glyphs.times)), style="dim"), width)


def _headline(diagnosis: Diagnosis, order: str, width: int, glyphs: Glyphs) -> list[Text]:
    rule = (glyphs.clean(f"{diagnosis.code} {words.rule_name(diagnosis)}"), f"bold {STYLES['overwritten']}")
    return wrap(Text.assemble((order, "dim"), rule, (f": {glyphs.clean(words.headline(diagnosis))}", "bold")), width)


def _blocks(diagnosis: Diagnosis, width: int, glyphs: Glyphs) -> Iterator[list[Text]]:
    """The parts of one diagnosis, with a blank line between them."""
    found = places(diagnosis, glyphs)
    shown = [place for place in found if place.site]
    for members in group(shown):
        yield list(Snippet(members, width, number_width(shown), glyphs).rows())
    lost = [Text(glyphs.clean(place.label), style=STYLES[place.role]) for place in found if not place.site]
    if lost:
        yield [line for text in lost for line in wrap(text, width)]
    versions = timeline(diagnosis, width, glyphs)
    if versions:
        yield versions
    told = list(_told(diagnosis, width, glyphs))
    if told:
        yield told
    for nth, fix in enumerate(diagnosis.fixes):
        yield list(fix_lines(fix, "or" if nth else "fix", width, glyphs))


def _told(diagnosis: Diagnosis, width: int, glyphs: Glyphs) -> Iterator[Text]:
    if why := words.why(diagnosis):
        yield from _keyed("why", Text(glyphs.clean(why)), width)
    if diagnosis.also_saved_by:
        others = words.also_kept(diagnosis.also_saved_by, glyphs.times)
        yield from _keyed("also", Text(glyphs.clean(f"kept by {others}")), width)
    for note in diagnosis.notes:
        yield from _keyed("note", Text(glyphs.clean(note.strip())), width)


def _keyed(key: str, body: Text, width: int, style: str = "bold") -> list[Text]:
    return hanging(Text(key, style=style), body, width, KEYS)


def fix_lines(fix: Fix, key: str, width: int, glyphs: Glyphs) -> Iterator[Text]:
    """A fix under its `key`, with its diff where it has one."""
    title = Text.assemble(glyphs.clean(fix.title.strip()), (f" ({_SAFETY[fix.safety]})", "dim"))
    yield from _keyed(key, title, width, "bold green")
    if fix.diff and fix.diff.strip():
        yield from (indented(line, KEYS) for line in render_diff(fix.diff, width - KEYS, glyphs))


def _summary(diagnoses: Sequence[Diagnosis], times: str) -> str:
    rules = Counter(f"{diagnosis.code} {words.rule_name(diagnosis)}" for diagnosis in diagnoses)
    codes = " ".join(dict.fromkeys(diagnosis.code for diagnosis in diagnoses))
    if len(diagnoses) == 1:
        return f"More: outplace explain {codes}"
    named = ", ".join(f"{rule} {times}{count}" if count > 1 else rule for rule, count in rules.items())
    safe = sum(any(fix.safety == "safe" for fix in diagnosis.fixes) for diagnosis in diagnoses)
    return f"{len(diagnoses)} in-place bugs: {named}; {safe or 'none'} with a safe fix. More: outplace explain CODE"
