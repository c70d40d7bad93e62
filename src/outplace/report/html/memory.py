"""The line of a tensor's life beside the rows: what kept it, what wrote it, and what backward finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outplace.report.html.figure import Path, middles
from outplace.report.html.story import Event

WIDTH = 98
LINE = 40


@dataclass(frozen=True)
class Touch:
    """Where an event meets the memory."""

    y: int
    what: str
    label: str
    stale: bool
    """What was kept here has been written since."""


@dataclass(frozen=True)
class Memory:
    """The line in stretches, before and after it was spoiled, and what touches it."""

    width: int
    height: int
    stretches: tuple[Path, ...]
    touches: tuple[Touch, ...]


def memory(events: Sequence[Event], height: int) -> Memory:
    """Nothing where no event is known to touch the memory."""
    at = middles(events)
    rows = [row for row, event in enumerate(events) if event.touch]
    if not rows:
        return Memory(0, height, (), ())
    kept = [row for row in rows if events[row].touch == "keeps"]
    written = [row for row in rows if events[row].touch == "writes"]
    spoiled = next((row for row in written if not kept or row > kept[0]), rows[-1])
    stretches = [_stretch(at[rows[0]], at[spoiled], "good")]
    if spoiled != rows[-1]:
        stretches.append(_stretch(at[spoiled], at[rows[-1]], "bad"))
    touches = tuple(_touch(at[row], events[row], any(later > row for later in written)) for row in rows)
    return Memory(WIDTH, height, tuple(stretches), touches)


def _stretch(first: int, last: int, look: str) -> Path:
    return Path(f"M{LINE} {first}V{last}", look)


def _touch(y: int, event: Event, written_later: bool) -> Touch:
    label = f"≠ {event.version}" if event.touch == "wants" and event.version else event.version
    return Touch(y, event.touch, label, event.touch == "keeps" and written_later)
