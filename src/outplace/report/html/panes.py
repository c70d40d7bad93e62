"""The source around the places of a diagnosis: lines with their marks, and what is said about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from outplace.files import naming
from outplace.model import Site
from outplace.report.html import highlight
from outplace.report.html.highlight import Stretch
from outplace.report.html.places import Places, editor_link
from outplace.report.places import Place
from outplace.report.snippet import group

CONTEXT = 2
NEAR_A_NODE = 1

Sources = Mapping[str, Mapping[int, str]]


@dataclass(frozen=True)
class Note:
    """What is said under a line."""

    role: str
    label: str


@dataclass(frozen=True)
class Line:
    """A line of a pane; without a number it stands for lines left out."""

    number: int | None = None
    code: str = ""
    place: str | None = None
    role: str = ""
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class Pane:
    """A stretch of one file."""

    where: str
    editor: str
    """The address that opens the first place in an editor; empty where none is set."""
    function: str
    lines: tuple[Line, ...]


def panes(
    places: Sequence[Place], nodes: Iterable[Site], sources: Sources, names: Places
) -> tuple[list[Pane], list[Pane]]:
    """The places of the story, with the nodes of the graph that lie among them; and the other nodes."""
    groups = group(place for place in places if place.site)
    spots = {_spot(place.site) for place in places if place.site}
    rest = list({_spot(node): node for node in nodes if _spot(node) not in spots}.values())
    main = []
    for members in groups:
        among = _among(rest, members)
        rest = [node for node in rest if node not in among]  # each line has one home
        main.append(_pane(members, among, sources, names))
    lone = group(Place("saved", "", node) for node in rest)
    return main, [_pane([], [place.site for place in members if place.site], sources, names) for members in lone]


def _spot(site: Site) -> tuple[str, int]:
    return site.file, site.line


def _among(nodes: Iterable[Site], members: Sequence[Place]) -> list[Site]:
    """The nodes that were made in lines which are shown for these places anyway, or between them."""
    here = [place.site for place in members if place.site]
    first, last = min(site.line for site in here) - CONTEXT, max(site.end_line for site in here) + CONTEXT
    return [site for site in nodes if site.file == here[0].file and first <= site.line <= last]


def _pane(places: Sequence[Place], nodes: Sequence[Site], sources: Sources, names: Places) -> Pane:
    told = [(place.site, place) for place in places if place.site]
    sites = [*(site for site, _ in told), *nodes]
    known = sources.get(sites[0].file, {})
    numbers = {number for site, _ in told for number in _around(site, CONTEXT) if number in known}
    numbers |= {number for site in nodes for number in _around(site, NEAR_A_NODE) if number in known}
    texts = _trimmed({number: known[number] for number in sorted(numbers)})
    texts.update({site.line: _from_site(site) for site in sites if site.line not in texts})
    margin = min((len(text) - len(text.lstrip()) for text in texts.values() if text.strip()), default=0)
    lines = (_line(number, texts[number], margin, told, nodes, names) for number in sorted(texts))
    main = sites[0]
    function = "" if main.function in ("", "<module>") or main.function.startswith("<cell line") else main.function
    return Pane(naming.place(main.file, main.line), editor_link(main), function, tuple(_with_gaps(lines)))


def _around(site: Site, context: int) -> range:
    return range(max(site.line - context, 1), site.end_line + context + 1)


def _trimmed(texts: dict[int, str]) -> dict[int, str]:
    """Without the blank lines that only pad the edges of a stretch."""
    edges = {number for number in texts if number - 1 not in texts or number + 1 not in texts}
    kept = {number: text for number, text in texts.items() if text.strip() or number not in edges}
    return kept if kept == texts else _trimmed(kept)


def _from_site(site: Site) -> str:
    """The line of a file that is not at hand, as far as the site knows it."""
    return " " * site.column + (site.text.splitlines() or [""])[0]


def _line(
    number: int, text: str, margin: int, told: Sequence[tuple[Site, Place]], nodes: Sequence[Site], names: Places
) -> Line:
    marks = [_stretch(site, number, text, margin, place.role) for site, place in told if _covers(site, number)]
    marks += [_stretch(site, number, text, margin, "node") for site in nodes if _covers(site, number)]
    begins = [(site, place) for site, place in told if site.line == number]
    nodes_here = [site for site in nodes if site.line == number]
    notes = tuple(Note(place.role, place.label) for _, place in begins)
    place = names.name(begins[0][0] if begins else nodes_here[0]) if begins or nodes_here else None
    role = begins[0][1].role if begins else "node" if nodes_here else ""
    return Line(number, highlight.line(text[margin:], marks), place, role, notes)


def _covers(site: Site, number: int) -> bool:
    return site.line <= number <= site.end_line


def _stretch(site: Site, number: int, text: str, margin: int, role: str) -> Stretch:
    """The part of a line that belongs to a site; columns count the characters of the line as it is in the file."""
    start = site.column if number == site.line else len(text) - len(text.lstrip())
    stop = site.end_column if number == site.end_line else len(text.rstrip())
    return Stretch(max(start - margin, 0), max(stop - margin, 0), role)


def _with_gaps(lines: Iterable[Line]) -> Iterator[Line]:
    before: int | None = None
    for line in lines:
        if before is not None and line.number is not None and line.number > before + 1:
            yield Line()
        yield line
        before = line.number
