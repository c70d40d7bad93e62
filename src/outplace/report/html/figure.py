"""The picture of a story: one row an event, the graph in lanes on its left, the tensor's memory on its right.

Only the lines are drawn here, in the coordinates of rows; the texts between them are ordinary HTML, which is read aloud
and can be reached by keyboard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outplace.report.html.story import Event

ROW = 56
LANE = 20
LEFT = 16
MOST_LANES = 6


@dataclass(frozen=True)
class Path:
    """A line, as SVG draws it, and how it looks."""

    d: str
    look: str


@dataclass(frozen=True)
class Dot:
    """A node's place in the lanes."""

    x: int
    y: int
    role: str


@dataclass(frozen=True)
class Figure:
    """The lanes beside the rows."""

    width: int
    height: int
    edges: tuple[Path, ...]
    dots: tuple[Dot, ...]


def middle(row: int) -> int:
    """The height at which a row's lines meet it."""
    return row * ROW + ROW // 2


def lanes(events: Sequence[Event]) -> Figure:
    """The graph: the way that backward takes, from the last row up, stays in the first lane."""
    rows = {event.node: row for row, event in enumerate(events) if event.node is not None}
    leads = _leading_to_saver(events)
    lane_of: dict[int, int] = {}
    waiting: list[int | None] = []  # by lane: the node that its line goes up to
    edges: list[tuple[int, int, int]] = []
    for event in reversed([event for event in events if event.node is not None]):
        assert event.node is not None
        mine = [lane for lane, node in enumerate(waiting) if node == event.node]
        lane = mine[0] if mine else _free(waiting)
        lane_of[event.node] = lane
        for other in mine:
            waiting[other] = None
        for following in sorted(event.inputs, key=lambda node: node not in leads):
            if following not in rows or rows[following] >= rows[event.node]:
                continue
            through = next((at for at, node in enumerate(waiting) if node == following), None)
            if through is None:
                through = lane if waiting[lane] is None else _free(waiting)
                waiting[through] = following
            edges.append((event.node, through, following))
    count = min(max([*lane_of.values(), *(through for _, through, _ in edges), -1]) + 1, MOST_LANES)
    paths = [
        _edge(one, through, other, lane_of, rows, one in leads and other in leads) for one, through, other in edges
    ]
    dots = [Dot(_x(lane_of[node]), middle(row), events[row].role) for node, row in rows.items()]
    start = _start(events, rows, lane_of)
    width = LEFT * 2 + (max(count, 1) - 1) * LANE if count else 0
    return Figure(width, len(events) * ROW, (*start, *paths), tuple(dots))


def _leading_to_saver(events: Sequence[Event]) -> set[int]:
    """The nodes that the gradient passes on its way to those that have kept the tensor."""
    found = {event.node for event in events if event.role == "saved" and event.node is not None}
    growing = True
    while growing:
        more = {
            event.node
            for event in events
            if event.node is not None and event.node not in found and not found.isdisjoint(event.inputs)
        }
        growing = bool(more)
        found |= more
    return found


def _free(waiting: list[int | None]) -> int:
    for lane, node in enumerate(waiting):
        if node is None:
            return lane
    waiting.append(None)
    return len(waiting) - 1


def _x(lane: int) -> int:
    return LEFT + min(lane, MOST_LANES - 1) * LANE


def _edge(one: int, through: int, other: int, lane_of: dict[int, int], rows: dict[int, int], walked: bool) -> Path:
    """Up from a node into its lane, along it, and out of it into the other node."""
    x, y = _x(lane_of[one]), middle(rows[one])
    along = _x(through)
    to_x, to_y = _x(lane_of[other]), middle(rows[other])
    bend = ROW // 2
    d = f"M{x} {y}"
    if along != x:
        d += f"C{x} {y - bend} {along} {y - bend} {along} {y - ROW}"
        y -= ROW
    if along != to_x:
        turn = min(y, to_y + ROW)
        d += f"V{turn}C{along} {turn - bend} {to_x} {turn - bend} {to_x} {to_y}"
    else:
        d += f"V{to_y}"
    return Path(d, "walked" if walked else "other")


def _start(events: Sequence[Event], rows: dict[int, int], lane_of: dict[int, int]) -> list[Path]:
    """From the backward, in the last row, to the node it starts from."""
    if not rows or not events or events[-1].role != "raised" or 0 not in rows:
        return []
    x = _x(lane_of[0])
    return [Path(f"M{x} {middle(len(events) - 1)}V{middle(rows[0])}", "walked")]
