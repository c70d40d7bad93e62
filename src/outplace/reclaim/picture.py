"""The part of the HTML page that draws memory: over time before and after, and by line at the peak."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from outplace.reclaim.data import by_line
from outplace.reclaim.proving import Outcome
from outplace.reclaim.recording import Recording
from outplace.reclaim.table import size
from outplace.reclaim.timeline import Account
from outplace.report.html import Section

WIDTH, HEIGHT = 900, 260
_LEFT, _BOTTOM, _TOP = 76, 28, 14
_POINTS = 450
_LINES = 12
_BAR = 20

_STYLE = Markup("""<style>
.reclaim svg { width: 100%; height: auto; }
.reclaim text { font: 12px var(--sans); fill: var(--soft); }
.reclaim .code { font-family: var(--mono); fill: var(--ink); }
.reclaim .before { fill: none; stroke: var(--overwritten); stroke-width: 1.5; }
.reclaim .after { fill: none; stroke: var(--good); stroke-width: 1.5; }
.reclaim .back { fill: var(--node-tint); }
.reclaim .grid { stroke: var(--rule); }
.reclaim .bar-before { fill: var(--overwritten); }
.reclaim .bar-after { fill: var(--good); }
.reclaim table { border-collapse: collapse; width: 100%; font-size: 14px; }
.reclaim th, .reclaim td { text-align: left; vertical-align: top; padding: 6px 10px 6px 0; }
.reclaim tr + tr td { border-top: 1px solid var(--rule); }
.reclaim td.number { text-align: right; white-space: nowrap; }
.reclaim td code { white-space: pre-wrap; }
.reclaim del { color: var(--overwritten); text-decoration: none; }
.reclaim ins { color: var(--good); text-decoration: none; }
</style>""")


def section(outcome: Outcome, data: dict[str, Any]) -> Section:
    """All of it, as a section of the page."""
    assert outcome.advice is not None and outcome.first.recording is not None
    peak = data["peak"]
    parts = [_STYLE, Markup("<div class='reclaim'>"), _summary(data), _timeline(outcome)]
    parts += [_suggestions(data["suggestions"]), _bars(outcome), Markup("</div>")]
    title = f"Peak memory: {size(peak['before'])}"
    if peak["after"] is not None:
        title += f" before, {size(peak['after'])} after"
    return Section(title, str(Markup("\n").join(parts)))


def _summary(data: dict[str, Any]) -> Markup:
    at, proof = data["peak"]["at"], data["proof"]
    where = f"{at['file']}:{at['line']} ({at['operation']})" if at and at["file"] else "no line of the program's own"
    text = f"The most memory is in use at {where}, on {data['device']}. "
    if proof["done"]:
        text += f"With the changes below the losses and gradients of {proof['gradients']} backwards "
        text += f"and the parameters after {proof['parameters']} steps are the same, bit for bit."
    elif data["suggestions"]:
        text += "The changes below look safe; they have not been proved."
    else:
        text += "No safe change was found that lowers it."
    return Markup("<p>{}</p>").format(text)


# -- over time --------------------------------------------------------------------------------------------------------


def _timeline(outcome: Outcome) -> Markup:
    assert outcome.first.recording is not None and outcome.advice is not None
    before = outcome.advice.before.values
    after = None
    if outcome.after is not None and outcome.after.recording is not None:
        after = Account(outcome.after.recording).curve().values
    top, count = max(before) or 1, len(before)
    marks = _marks(outcome.first.recording)
    rows = [Markup("<svg viewBox='0 0 {} {}' role='img' aria-label='{}'>").format(WIDTH, HEIGHT, "Memory over time")]
    rows += _backwards(outcome.first.recording, count)
    for part in (0, 0.25, 0.5, 0.75, 1):
        y = _y(part * top, top)
        rows.append(Markup("<line class='grid' x1='{}' x2='{}' y1='{}' y2='{}'/>").format(_LEFT, WIDTH, y, y))
        label = Markup("<text x='{}' y='{}' text-anchor='end'>{}</text>")
        rows.append(label.format(_LEFT - 8, y + 4, size(part * top)))
    rows.append(_line(before, [float(number) for number in range(count)], count, top, "before"))
    if after is not None and outcome.after is not None and outcome.after.recording is not None:
        rows.append(_line(after, _moments(_marks(outcome.after.recording), marks), count, top, "after"))
    words = "red: as it is" + ("; green: with the changes" if after is not None else "")
    label = Markup("<text x='{}' y='{}'>{}</text>")
    rows.append(label.format(_LEFT, HEIGHT - 8, f"operations, in the order they ran; shaded: backward; {words}"))
    rows.append(Markup("</svg>"))
    return Markup("\n").join(rows)


def _backwards(recording: Recording, count: int) -> list[Markup]:
    scale = (WIDTH - _LEFT) / max(count, 1)
    shade = Markup("<rect class='back' x='{:.1f}' y='{}' width='{:.1f}' height='{}'/>")
    height = HEIGHT - _TOP - _BOTTOM
    found = recording.backwards[:200]
    return [shade.format(_LEFT + b.began * scale, _TOP, max((b.ended - b.began) * scale, 1), height) for b in found]


def _y(value: float, top: int) -> float:
    return round(HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / top, 1)


def _marks(recording: Recording) -> list[int]:
    """The moments by which two runs are laid over each other: where backwards begin and end."""
    inner = [moment for backward in recording.backwards for moment in (backward.began, backward.ended)]
    return [0, *inner, len(recording.operations)]


def _moments(own: list[int], other: list[int]) -> list[float]:
    """For each operation of a run the moment in the other run at which it is drawn."""
    if len(own) != len(other):
        own, other = [0, own[-1]], [0, other[-1]]
    found: list[float] = []
    for start, end, first, last in zip(own, own[1:], other, other[1:], strict=False):
        found += [first + (last - first) * step / (end - start) for step in range(end - start)]
    return found


def _line(values: Sequence[int], moments: Sequence[float], count: int, top: int, kind: str) -> Markup:
    """The highest of each stretch: a peak is never smoothed away."""
    width = max(1, -(-len(values) // _POINTS))
    scale = (WIDTH - _LEFT) / max(count, 1)
    heights = [(moments[start], max(values[start : start + width])) for start in range(0, len(moments), width)]
    points = " ".join(f"{_LEFT + moment * scale:.1f},{_y(height, top)}" for moment, height in heights)
    return Markup("<polyline class='{}' points='{}'/>").format(kind, points)


# -- by line ----------------------------------------------------------------------------------------------------------


def _bars(outcome: Outcome) -> Markup:
    """What is alive at the peak, by the line that made it."""
    assert outcome.first.recording is not None and outcome.advice is not None
    before = _totals(outcome.first.recording, {})
    after = None
    if outcome.after is not None and outcome.after.recording is not None:
        after = _totals(
            outcome.after.recording,
            {path: _old_lines(outcome.originals[path], new) for path, new in outcome.texts.items()},
        )
    names = sorted(before, key=lambda name: -before[name])[:_LINES]
    most = max(before.values(), default=1)
    height = (2 * _BAR + 14) * len(names) + 8
    rows = [Markup("<h3>Alive at the peak, by the line that made it</h3>")]
    rows.append(Markup("<svg viewBox='0 0 {} {}' role='img' aria-label='{}'>").format(WIDTH, height, "By line"))
    for number, name in enumerate(names):
        y = (2 * _BAR + 14) * number + 14
        rows.append(Markup("<text class='code' x='0' y='{}'>{}</text>").format(y, name))
        rows.append(_bar("bar-before", before[name], most, y + 6))
        if after is not None:
            rows.append(_bar("bar-after", after.get(name, 0), most, y + 18))
    rows.append(Markup("</svg>"))
    return Markup("\n").join(rows)


def _bar(kind: str, value: int, most: int, y: int) -> Markup:
    width = (WIDTH - 120) * value / most
    bar = Markup("<rect class='{}' x='0' y='{}' width='{:.1f}' height='9' rx='2'/>").format(kind, y, max(width, 1))
    return bar + Markup("<text x='{:.1f}' y='{}'>{}</text>").format(width + 6, y + 9, size(value))


def _totals(recording: Recording, moved: Mapping[str, Mapping[int, int]]) -> dict[str, int]:
    account = Account(recording)
    totals: dict[str, int] = {}
    for entry in by_line(recording, account, account.curve().moment, moved):
        name = f"{entry['file']}:{entry['line']} {entry['operation']}" if entry["file"] else entry["operation"]
        totals[name] = totals.get(name, 0) + entry["bytes"]
    return totals


def _old_lines(before: str, after: str) -> dict[int, int]:
    """Where the lines of a changed file stood before: a `del` has moved those after it."""
    old, new = before.split("\n"), after.split("\n")
    found: dict[int, int] = {}
    for _, first, _, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        found.update({line + 1: first + line - start + 1 for line in range(start, end)})
    return found


def _suggestions(suggestions: Sequence[dict[str, Any]]) -> Markup:
    if not suggestions:
        return Markup("")
    head = Markup("<table><tr><th>line</th><th>change</th><th>saves</th><th>of the peak</th><th>safe because</th></tr>")
    row = Markup(
        "<tr><td><code>{}:{}</code></td><td><code><del>{}</del>\n<ins>{}</ins></code></td>"
        "<td class='number'>{}</td><td class='number'>{}</td><td>{}</td></tr>"
    )
    rows = [
        row.format(
            one["site"]["file"],
            one["site"]["line"],
            one["before"],
            one["after"],
            size(one["saves"]),
            f"{one['share']:.1%}",
            escape(one["because"]) + (Markup("<br>Costs: {}").format(one["costs"]) if one["costs"] else ""),
        )
        for one in suggestions
    ]
    return Markup("\n").join([head, *rows, Markup("</table>")])
