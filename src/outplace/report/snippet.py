"""Source around labelled places, with the expressions underlined."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from outplace.files import naming
from outplace.model import Site
from outplace.report.glyphs import Glyphs, Line, lay_out, window
from outplace.report.layout import indented, wrap
from outplace.report.places import STYLES, Place

CONTEXT = 1
LEAST = 40
"""Wrapped text with less room than this goes to the left edge instead of under its mark."""
NEARBY = 30
"""Places of one function that are further apart get snippets of their own, each with a path to click on."""


@dataclass(frozen=True)
class Mark:
    """A place and the cells of its line that it underlines; no cells where the source is not known."""

    place: Place
    cells: tuple[int, int] | None


def group(places: Iterable[Place]) -> list[list[Place]]:
    """The places that share a snippet, in the order in which the story reaches each snippet."""
    groups: list[list[Place]] = []
    for place in places:
        home = next((members for members in groups if any(_near(place.site, other.site) for other in members)), None)
        if home is None:
            groups.append([place])
        else:
            home.append(place)
    return groups


def _near(one: Site | None, other: Site | None) -> bool:
    if one is None or other is None or (one.file, one.function) != (other.file, other.function):
        return False
    return abs(one.line - other.line) <= NEARBY


def number_width(places: Iterable[Place]) -> int:
    """The digits of the highest line number that snippets of these places can show."""
    lines = [place.site.line for place in places if place.site]
    return max((len(str(number)) for line in lines for number in (line, line + CONTEXT)), default=1)


class Snippet:
    """One stretch of one file with its marks."""

    def __init__(self, places: Sequence[Place], width: int, digits: int, glyphs: Glyphs) -> None:
        self.glyphs = glyphs
        self.digits = digits
        self.width = max(width - digits - 3, 8)
        self.places = sorted(places, key=lambda place: place.site.line if place.site else 0)
        self.lines = self._source()
        self.margin = min((_margin(line) for line in self.lines.values() if line.text.strip()), default=0)

    def rows(self) -> Iterator[Text]:
        """The header, then the source with its marks."""
        site = self.places[0].site
        assert site is not None
        yield from self._header(site)
        before: int | None = None
        for number in self.lines:
            if before is not None and number > before + 1:
                yield Text(f"{self.glyphs.skip:>{self.digits}}", style="dim")
            yield from self._line(number)
            before = number

    def _header(self, site: Site) -> list[Text]:
        spot, _, function = self.glyphs.clean(naming.where(site)).partition(" in ")
        header = Text.assemble(spot, (f" in {function}", "dim")) if function else Text(spot)
        return wrap(header, self.width + self.digits + 3)

    def _source(self) -> dict[int, Line]:
        """The lines to show by number: those with a mark, a little around them, and no hole of a single line."""
        shown: dict[int, Line] = {}
        for place in self.places:
            assert place.site is not None
            number, known = place.site.line, _line_of(place.site)
            if known is not None:
                nearby = range(max(number - CONTEXT, 1), number + CONTEXT + 1)
                shown.update({near: self._read(place.site.file, near) for near in nearby})
            else:
                shown.setdefault(number, lay_out(_fallback(place.site), self.glyphs))
        for number in [number for number in shown if number + 2 in shown and number + 1 not in shown]:
            if _getline(self._file, number + 1):  # "" past the end of a file, or for a file that is gone
                shown[number + 1] = self._read(self._file, number + 1)
        return self._trimmed(shown)

    def _read(self, file: str, number: int) -> Line:
        return lay_out(_getline(file, number), self.glyphs)

    def _trimmed(self, shown: dict[int, Line]) -> dict[int, Line]:
        """In order, without the blank lines that only pad the edges of a stretch."""
        marked = {place.site.line for place in self.places if place.site}
        edge = {number for number in shown if number - 1 not in shown or number + 1 not in shown}
        return {
            number: shown[number]
            for number in sorted(shown)
            if number in marked or number not in edge or shown[number].text.strip()
        }

    @property
    def _file(self) -> str:
        return next((place.site.file for place in self.places if place.site), "")

    def _line(self, number: int) -> Iterator[Text]:
        line = self.lines[number]
        marks = [_mark(place, line) for place in self.places if place.site and place.site.line == number]
        marks.sort(key=lambda mark: mark.cells or (0, 0))
        if not any(mark.cells for mark in marks):
            yield self._row(number, line, (self.margin, self.margin), context=True)
        for shared in self._views([mark for mark in marks if mark.cells]):
            yield from self._view(number, line, shared)
        for mark in marks:
            if not mark.cells:
                yield from self._label(mark.place, 0)

    def _views(self, marks: list[Mark]) -> list[list[Mark]]:
        """All marks under one picture of the line where it can show them; a very long line is shown once for each."""
        start, stop = _union(marks)
        if stop - start <= self.width - 2 * len(self.glyphs.dots):
            return [marks] if marks else []
        return [[mark] for mark in marks]

    def _view(self, number: int, line: Line, marks: list[Mark]) -> Iterator[Text]:
        span = _union(marks)
        left = self._left(line, span)
        yield self._row(number, line, span)
        for mark in marks:
            begin, end = mark.cells or span
            start, stop = max(begin - left, 0), min(end - left, self.width)
            yield from self._underline(mark.place, start, max(stop, start + 1))

    def _left(self, line: Line, span: tuple[int, int]) -> int:
        """The first cell of the line that is shown: its margin, or further right when the mark would fall off."""
        end, dots = cell_len(line.text), len(self.glyphs.dots)
        if end - self.margin <= self.width or span[1] - self.margin <= self.width - dots:
            return self.margin
        room = self.width - (span[1] - span[0]) - 2 * dots
        if room < 0 and span[0] - self.margin < self.width // 2:
            return self.margin  # the mark is cut in any case: better at its end than the line at its start
        return max(self.margin, min(span[0] - dots - max(room // 2, 0), end - self.width))

    def _row(self, number: int, line: Line, span: tuple[int, int], context: bool = False) -> Text:
        left, dots = self._left(line, span), self.glyphs.dots
        start, stop = left, left + self.width
        before = dots if left > self.margin else ""
        after = dots if cell_len(line.text) > stop else ""
        shown = before + window(line.text, start + len(before), stop - len(after)) + after
        row = Text(f"{number:>{self.digits}} {self.glyphs.bar} ", style="dim")
        row.append(shown, style="dim" if context else "not dim")
        row.rstrip()
        return row

    def _underline(self, place: Place, start: int, stop: int) -> Iterator[Text]:
        """The underline with its label beside it, or below it where there is no room."""
        style, mark = STYLES[place.role], getattr(self.glyphs, place.role)
        line = Text(" " * start).append(mark * (stop - start), style=style)
        label = self._text(place)
        if stop + 1 + cell_len(label) <= self.width:
            yield self._gutter(line.append(" " + label, style=style))
            yield from self._chain(place, start)
        else:
            yield self._gutter(line)
            yield from self._label(place, start)

    def _label(self, place: Place, start: int) -> Iterator[Text]:
        label = self._text(place)
        start = start if start + cell_len(label) <= self.width else 0
        for line in wrap(Text(label, style=STYLES[place.role]), self.width - start):
            yield self._gutter(indented(line, start))
        yield from self._chain(place, start)

    def _text(self, place: Place) -> str:
        assert place.site is not None
        more = f" (to line {place.site.end_line})" if place.site.end_line > place.site.line else ""
        return self.glyphs.clean(place.label + more)

    def _chain(self, place: Place, start: int) -> Iterator[Text]:
        """The library frames between the line and the operation."""
        frames = [site for site in place.chain if not site.function.endswith("_call_impl")]  # every Module has these
        if not frames:
            return
        calls = [f"{naming.place(site.file, site.line)} {site.function}{_own_words(site)}".rstrip() for site in frames]
        text = Text(self.glyphs.clean(f"through {f' {self.glyphs.arrow} '.join(calls)}"), style="dim")
        start = start if self.width - start >= LEAST else 0
        for line in wrap(text, self.width - start):
            yield self._gutter(indented(line, start))

    def _gutter(self, line: Text) -> Text:
        row = Text(f"{' ' * self.digits} {self.glyphs.bar} ", style="dim")
        return Text.assemble(row, line)


def _own_words(site: Site) -> str:
    """The line itself, if it is in no file that a reader could open."""
    if not site.file.startswith("<"):
        return ""
    return f": {site.text.splitlines()[0]}" if site.text else " (its source is not known)"


def _union(marks: Sequence[Mark]) -> tuple[int, int]:
    """From where the first mark begins to where the last one ends."""
    spans = [mark.cells for mark in marks if mark.cells]
    return min((start for start, _ in spans), default=0), max((stop for _, stop in spans), default=0)


def _margin(line: Line) -> int:
    return len(line.text) - len(line.text.lstrip(" "))


def _getline(file: str, number: int) -> str:
    """The line, or "" where there is none; linecache itself trips over names that no file can have."""
    try:
        return linecache.getline(file, number)
    except ValueError:
        return ""


def _line_of(site: Site) -> str | None:
    """The site's line as linecache has it; None where the file is gone, or is no longer what ran."""
    line = _getline(site.file, site.line)
    recorded = next(iter(site.text.strip().splitlines()), "").strip()
    return line if line.strip() and recorded in line else None


def _fallback(site: Site) -> str:
    return next(iter(site.text.strip("\r\n").splitlines()), "") or "(source not available)"


def _mark(place: Place, line: Line) -> Mark:
    site = place.site
    assert site is not None
    source = _line_of(site)
    if source is not None:
        return Mark(place, line.span(*_columns(site, source.rstrip())))
    if not site.text.strip():
        return Mark(place, None)
    # Site.text may be the expression alone, or its line without the indent that the columns count.
    text = _fallback(site)
    trusted = text[:1].isspace() or site.column == 0
    return Mark(place, line.span(*(_columns(site, text) if trusted else _all(text))))


def _columns(site: Site, source: str) -> tuple[int, int]:
    """The characters to underline in the site's first line; all of it where the columns are not known."""
    stop = len(source) if site.end_line > site.line else min(site.end_column, len(source))
    return (site.column, stop) if 0 <= site.column < stop else _all(source)


def _all(source: str) -> tuple[int, int]:
    return len(source) - len(source.lstrip()), len(source.rstrip())
