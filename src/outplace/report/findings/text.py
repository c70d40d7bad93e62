"""`--output-format text`: each finding with both of its places in the source, for a person at a terminal."""

from __future__ import annotations

import contextlib
import linecache
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.text import Text

from outplace.checking import notebook
from outplace.checking.outcome import Result
from outplace.files import reading
from outplace.model import Finding, Site, is_refused
from outplace.report.findings import concise, places, summary
from outplace.report.glyphs import Glyphs, for_encoding
from outplace.report.layout import indented, wrap
from outplace.report.places import Place
from outplace.report.snippet import Snippet, group, number_width
from outplace.report.terminal import INDENT, NARROWEST, fix_lines
from outplace.report.words import rule_name

_SEVERITIES = {"error": "bold red", "warning": "bold yellow"}
_SAVED = {"OUT1": "made here", "OUT2": "saved here", "OUT3": "saved here"}
_WRITES = {"stepped": "updated here", "detached": "detached here"}
_REFUSED = "refused here"
_MOST_IN_FULL = 500
"""If a file has more findings, the others get one line each: an excerpt takes two milliseconds."""


def render(result: Result, console: Console, quiet: bool = False) -> None:
    """Print the report to `console`, in what its stream can show; `quiet` leaves out the last lines."""
    width, glyphs = max(console.width, NARROWEST), for_encoding(console.encoding)
    _show_cells(result.findings)
    for line in _report(result, width, glyphs, quiet):
        console.print(line, soft_wrap=True)  # it is laid out already


def _report(result: Result, width: int, glyphs: Glyphs, quiet: bool) -> Iterator[Text]:
    counts: Counter[str] = Counter()
    for finding in result.findings:
        counts[finding.site.file] += 1
        if counts[finding.site.file] <= _MOST_IN_FULL:
            yield from _finding(finding, width, glyphs)
            yield Text()
        else:
            yield Text(glyphs.clean(concise.line(finding)))
    for failure in result.failures:
        yield from wrap(Text(glyphs.clean(places.message(failure)), style="red"), width)
    if quiet:
        return
    if result.failures:
        yield Text()
    yield from _end(result)


def _end(result: Result) -> Iterator[Text]:
    clean = not (result.findings or result.failures or result.left_out)
    yield Text(summary.text(result), style="green" if clean else "bold")
    codes = sorted({finding.code for finding in result.findings})
    if codes:
        yield Text(f"More: outplace explain {codes[0] if len(codes) == 1 else 'CODE'}", style="dim")


def _finding(finding: Finding, width: int, glyphs: Glyphs) -> Iterator[Text]:
    style = _SEVERITIES[finding.severity]
    head = Text.assemble((f"{finding.code} {rule_name(finding)}", style), (f" [{finding.severity}]", "dim"), ": ")
    yield from wrap(head.append(glyphs.clean(finding.message.strip()), style="bold"), width)
    shown = list(_places(finding))
    for members in group(shown):
        rows = _Located(finding.site, members, width - INDENT, number_width(shown), glyphs).rows()
        yield from (indented(row, INDENT) for row in rows)
    if finding.fix:
        yield from (indented(row, INDENT) for row in fix_lines(finding.fix, "fix", width - INDENT, glyphs))


def _places(finding: Finding) -> Iterator[Place]:
    """The line that writes first: its snippet is the one to click on. Within one snippet lines stand in order."""
    refused = is_refused(finding) and finding.cause != "read later"
    yield Place("overwritten", _REFUSED if refused else _WRITES.get(finding.kind, "overwritten here"), finding.site)
    if finding.saved_by:
        yield Place("saved", _SAVED.get(finding.code[:4], "saved here"), finding.saved_by)


class _Located(Snippet):
    """A snippet whose header names the line that writes, with its column, where it shows that line."""

    def __init__(self, site: Site, places: Sequence[Place], width: int, digits: int, glyphs: Glyphs) -> None:
        super().__init__(places, width, digits, glyphs)
        self._site = site

    def _header(self, site: Site) -> list[Text]:
        if any(place.site is self._site for place in self.places):
            site = self._site
        function = "" if site.function in ("", "<module>") else f" in {site.function}"
        header = Text.assemble(self.glyphs.clean(places.start(site)), (self.glyphs.clean(function), "dim"))
        return wrap(header, self.width + self.digits + 3)


def _show_cells(findings: Iterable[Finding]) -> None:
    """Make the cells of notebooks known to linecache, from which snippets are read."""
    files = {site.file for finding in findings for site in (finding.site, finding.saved_by) if site}
    books = {path for path, cell in map(notebook.split_cell, files) if cell is not None}
    for path in books:
        with contextlib.suppress(OSError), open(path, "rb") as stream:
            show_data(path, stream.read())


def show_data(path: str, data: bytes) -> None:
    """Make the content of a file known that is not, or not yet, what lies on disk."""
    try:
        if path.endswith(notebook.SUFFIX):
            for number, source in notebook.cell_sources(data).items():
                show_source(notebook.cell_name(path, number), source)
        else:
            show_source(path, reading.decode(data))
    except reading.Unreadable:
        return


def show_source(file: str, source: str) -> None:
    """Make text known to linecache under the name of a file; what is known already stays."""
    lines = [f"{line}\n" for line in source.split("\n")]
    linecache.cache.setdefault(file, (len(source), None, lines, file))
