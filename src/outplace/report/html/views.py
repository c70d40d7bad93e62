"""A diagnosis as the templates want it: every text chosen, every line drawn, nothing left to decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from outplace.files import naming
from outplace.knowledge.nodes import describe_saved
from outplace.model import Diagnosis, Fix, Site, is_silent
from outplace.report import places, words
from outplace.report.glyphs import for_encoding
from outplace.report.html import figure, highlight, memory, sides, story
from outplace.report.html.boxes import Boxes, boxes, short
from outplace.report.html.panes import Note, Pane, Sources, panes
from outplace.report.html.places import Places
from outplace.report.html.rule_pages import rule_id

_GLYPHS = for_encoding("utf-8")
_LONGEST_MESSAGE = 4_000
_LONGEST_PATCH = 10_000
_HEIGHT_OF_BOXES = 450
"""About as many pixels as the two boxes take in one column."""
_SAFETY = {"safe": "safe", "unsafe": "look it over", "suggestion": "suggestion"}


@dataclass(frozen=True)
class Row:
    """An event of the story, as a row of the figure."""

    role: str
    height: int
    title: str
    detail: str
    code: str
    file: str
    line: str
    place: str | None
    hover: str
    """PyTorch's name of the node, and the code in full."""
    spoken: str
    """What a screen reader adds to it."""


@dataclass(frozen=True)
class Remedy:
    """A fix."""

    title: str
    safety: str
    label: str
    rows: tuple[sides.Row, ...]
    patch: str
    new_lines: str


@dataclass(frozen=True)
class View:
    """One diagnosis."""

    id: str
    code: str
    rule: str
    """The name of the rule's page in the document; empty where it has none."""
    kind: str
    sentence: str
    """What happened, without the tensor's form, which stands apart."""
    name: str
    form: str
    why: str
    notes: tuple[str, ...]
    also: str
    ranks: str
    rows: tuple[Row, ...]
    left_out: int
    lanes: figure.Figure
    memory: memory.Memory
    panes: tuple[Pane, ...]
    other_panes: tuple[Pane, ...]
    boxes: Boxes | None
    is_short: bool
    """Without a graph the story is short: the source stands below both columns."""
    boxes_at: Literal["left", "right", "below"]
    """In the column that is much shorter than the other one; else below both."""
    remedies: tuple[Remedy, ...]
    message: str
    lost: tuple[Note, ...]
    """Places that have no line."""


def view(diagnosis: Diagnosis, sources: Sources, id: str, ranks: Sequence[int] | None = None, prefix: str = "") -> View:
    """All that is shown of a diagnosis; `id` begins the names of its elements, `prefix` those of the document."""
    names = Places(id)
    events = story.tell(diagnosis)
    found = [*places.places(diagnosis, _GLYPHS), *_also_kept(diagnosis, events)]
    nodes = [event.site for event in events if event.site]
    lanes = figure.lanes(events)
    main, others = panes(found, nodes, sources, names)
    remedies = tuple(map(_remedy, diagnosis.fixes))
    tensor = diagnosis.tensor
    drawn = len(diagnosis.graph.nodes) if diagnosis.graph else 0
    return View(
        id=id,
        code=diagnosis.code,
        rule=rule_id(prefix, diagnosis.code),
        kind=words.rule_name(diagnosis),
        sentence=_sentence(diagnosis),
        name=short(tensor.name or "the tensor", 60),
        form=words.form(tensor),
        why=short(words.why(diagnosis), _LONGEST_MESSAGE),
        notes=tuple(short(note.strip(), _LONGEST_MESSAGE) for note in diagnosis.notes),
        also=words.also_kept(diagnosis.also_saved_by, "×") if diagnosis.also_saved_by else "",
        ranks=_ranks(ranks or ()),
        rows=tuple(_row(event, sources, names, len({site.file for site in nodes}) > 1) for event in events),
        left_out=max(diagnosis.graph.size - drawn, 0) if diagnosis.graph else 0,
        lanes=lanes,
        memory=memory.memory(events, lanes.height),
        panes=tuple(main),
        other_panes=tuple(others),
        boxes=boxes(diagnosis),
        is_short=not lanes.dots,
        boxes_at=_boxes_at(
            _height(main) + sum(map(_height_of_remedy, remedies)), lanes.height + _height_of_reason(diagnosis)
        ),
        remedies=remedies,
        message="" if is_silent(diagnosis) else short(diagnosis.error, _LONGEST_MESSAGE),
        lost=tuple(Note(place.role, place.label) for place in found if place.site is None),
    )


def _also_kept(diagnosis: Diagnosis, events: Sequence[story.Event]) -> Iterator[places.Place]:
    """The other nodes that kept the tensor, as far as they are drawn."""
    drawn = {event.moment for event in events if event.role == "saved"}
    for saved in diagnosis.also_saved_by:
        if saved.site is not None and saved.number in drawn:
            yield places.Place("saved", f"also saved here: {describe_saved(saved.node, saved.saved_as)}", saved.site)


def short_headline(diagnosis: Diagnosis) -> str:
    """What happened, for an index."""
    return short(words.headline(diagnosis), 160)


def _boxes_at(left: int, right: int) -> Literal["left", "right", "below"]:
    if abs(left - right) < _HEIGHT_OF_BOXES // 2:
        return "below"
    return "left" if left < right else "right"


def _height_of_reason(diagnosis: Diagnosis) -> int:
    also = diagnosis.also_saved_by[:1]
    return 26 * (sum(1 + len(text) // 60 for text in (words.why(diagnosis), *diagnosis.notes)) + len(also))


def _height(shown: Sequence[Pane]) -> int:
    """About as many pixels as they take."""
    return sum(60 + sum(22 + 23 * len(line.notes) for line in pane.lines) for pane in shown)


def _height_of_remedy(remedy: Remedy) -> int:
    return 90 + 22 * len(remedy.rows)


def _ranks(ranks: Sequence[int]) -> str:
    """`rank 2`, `ranks 0 to 7`, `ranks 0, 2, 5`."""
    if len(ranks) < 2:
        return "".join(f"rank {rank}" for rank in ranks)
    if list(ranks) == list(range(ranks[0], ranks[0] + len(ranks))) and len(ranks) > 2:
        return f"ranks {ranks[0]} to {ranks[-1]}"
    return short(f"ranks {', '.join(map(str, ranks))}", 60)


def _sentence(diagnosis: Diagnosis) -> str:
    name = diagnosis.tensor.name
    whole = words.headline(diagnosis)
    return short(whole.replace(words.tensor(diagnosis.tensor), f"`{name}`", 1) if name else whole, 300)


def _row(event: story.Event, sources: Sources, names: Places, several_files: bool) -> Row:
    site = event.site
    file = PurePath(naming.document(site.file)).name if site and several_files else ""
    code = short(_code(site, sources, event.role), 120) if site else ""
    return Row(
        role=event.role,
        height=figure.height(event),
        title=short(event.title, 60),
        detail=event.detail,
        code=code,
        file=file,
        line="" if site is None else f":{site.line}" if file else f"line {site.line}",
        place=names.name(site) if site else None,
        hover=": ".join(filter(None, (event.made, code))),
        spoken=_SPOKEN.get(event.role, ""),
    )


_SPOKEN = {"saved": "kept for backward", "overwritten": "overwritten", "raised": "needed again", "leaf": "leaf"}


def _code(site: Site, sources: Sources, role: str) -> str:
    """The expression of the places that count; of other nodes the whole line, which always makes sense."""
    line = highlight.without_comment(sources.get(site.file, {}).get(site.line, "").strip())
    return line if role == "node" and line else (site.text.splitlines() or [""])[0]


def _remedy(fix: Fix) -> Remedy:
    diff = fix.diff or ""
    whole = diff if len(diff) <= _LONGEST_PATCH else ""
    title = short(fix.title.strip(), 500)
    return Remedy(title, fix.safety, _SAFETY[fix.safety], tuple(sides.rows(diff)), whole, sides.new_lines(whole))
