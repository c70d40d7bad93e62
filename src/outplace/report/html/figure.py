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
    lane_of, edges = _assigned_lanes(events, rows, leads)
    points = {node: (_x(lane), at[rows[node]]) for node, lane in lane_of.items()}
    paths = [
        Path(_edge(points[node], _x(lane), points[following]), "walked" if {node, following} <= leads else "other")
        for node, lane, following in edges
    ]
    dots = [Dot(*points[node], events[row].role) for node, row in rows.items()]
    if 0 in rows and events[-1].role == "raised":  # from the backward, in the last row, to the node it starts from
        x, y = points[0]
        paths.append(Path(f"M{x} {at[-1]}V{y}", "walked"))
        dots.append(Dot(x, at[-1], "raised"))
    return Figure(_width(lane_of, edges), sum(map(height, events)), tuple(paths), tuple(dots))


_LaneEdge = tuple[int, int, int]
"""A node, the lane that the line goes along, and the node that it goes up to."""


def _assigned_lanes(
    events: Sequence[Event], rows: dict[int, int], leads: set[int]
) -> tuple[dict[int, int], list[_LaneEdge]]:
    """The lane of each node, and the edges, from the last row up."""
    lane_of: dict[int, int] = {}
    edges: list[_LaneEdge] = []
    waiting: list[int | None] = []  # by lane: the node that its line goes up to
    for node, row in sorted(rows.items(), key=lambda item: -item[1]):
        arriving = [lane for lane, goal in enumerate(waiting) if goal == node]
        lane_of[node] = arriving[0] if arriving else _free(waiting)
        for lane in arriving:
            waiting[lane] = None
        for following in sorted(events[row].inputs, key=lambda following: following not in leads):
            if following in rows and rows[following] < row:
                edges.append((node, _lane_up_to(following, waiting, lane_of[node]), following))
    return lane_of, edges


def _lane_up_to(goal: int, waiting: list[int | None], own: int) -> int:
    """The lane whose line goes up to a node: one that does already, a node's own lane, or a free one."""
    if goal in waiting:
        return waiting.index(goal)
    lane = own if waiting[own] is None else _free(waiting)
    waiting[lane] = goal
    return lane


def _width(lane_of: dict[int, int], edges: Sequence[_LaneEdge]) -> int:
    count = min(max([*lane_of.values(), *(lane for _, lane, _ in edges), -1]) + 1, MOST_LANES)
    return LEFT * 2 + (count - 1) * LANE if count else 0


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
