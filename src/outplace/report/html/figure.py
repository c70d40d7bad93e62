"""The picture of a story: one row an event, the graph in lanes on its left, the tensor's memory on its right.

Only the lines are drawn here, in the coordinates of rows; the texts between them are ordinary HTML, which is read aloud
and can be reached by keyboard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from outplace.report.html.story import Event

ROW, GAP_ROW = 56, 32
LANE = 18
LEFT = 12
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


def height(event: Event) -> int:
    """The height of an event's row."""
    return GAP_ROW if event.role == "gap" else ROW


def middles(events: Sequence[Event]) -> list[int]:
    """The height at which the lines of each row meet it."""
    below = accumulate(map(height, events))
    return [bottom - height(event) // 2 for bottom, event in zip(below, events, strict=True)]


def lanes(events: Sequence[Event]) -> Figure:
    """The graph: the way that backward takes, from the last row up, stays in the first lane."""
    at = middles(events)
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
    points = {node: (_x(lane), at[rows[node]]) for node, lane in lane_of.items()}
    paths = [
        Path(_edge(points[one], _x(through), points[other]), "walked" if {one, other} <= leads else "other")
        for one, through, other in edges
    ]
    dots = [Dot(*points[node], events[row].role) for node, row in rows.items()]
    if 0 in rows and events[-1].role == "raised":  # from the backward, in the last row, to the node it starts from
        x, y = points[0]
        paths.append(Path(f"M{x} {at[-1]}V{y}", "walked"))
        dots.append(Dot(x, at[-1], "raised"))
    width = LEFT * 2 + (count - 1) * LANE if count else 0
    return Figure(width, sum(map(height, events)), tuple(paths), tuple(dots))


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


def _edge(start: tuple[int, int], along: int, end: tuple[int, int]) -> str:
    """Up from a node into its lane, along it, and out of it into the other node."""
    (x, y), (to_x, to_y) = start, end
    bend = min(ROW, y - to_y) // 2
    d = f"M{x} {y}"
    if along != x:
        y -= 2 * bend
        d += f"C{x} {y + bend} {along} {y + bend} {along} {y}"
    if along == to_x:
        return f"{d}V{to_y}"
    turn = min(y, to_y + 2 * bend)
    return f"{d}V{turn}C{along} {turn - bend} {to_x} {turn - bend} {to_x} {to_y}"
