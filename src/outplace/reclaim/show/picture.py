"""Draws memory for the HTML page: over time before and after, and by line at the peak."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from outplace.reclaim.observe.recording import Recording
from outplace.reclaim.observe.timeline import Account
from outplace.reclaim.outcome import Outcome
from outplace.reclaim.show.page_data import by_line
from outplace.reclaim.show.table import size
from outplace.report.html import Section

WIDTH, HEIGHT = 900, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 8, 40, 26
_POINTS = 450
_MOST_TICKS = 5
_LEAST_STEP = 60
"""Steps that are drawn nearer to each other than this are not named."""
_LINES = 12
_WIDEST = 82
"""Percent of the page that the longest bar takes."""

_STYLE = Markup("""<style>
.reclaim .card { margin-top: 18px; }
.reclaim .summary { max-width: 90ch; font-size: 16px; }
.reclaim svg { width: 100%; min-width: 640px; height: auto; display: block; }
.reclaim text { font: 12px var(--sans); fill: var(--soft); }
.reclaim .code { font-family: var(--mono); fill: var(--ink); }
.reclaim .before { fill: none; stroke: var(--soft); stroke-width: 1.5; stroke-dasharray: 5 3; }
.reclaim .after { fill: none; stroke: var(--saved); stroke-width: 2; }
.reclaim .area-before { fill: var(--soft); fill-opacity: .12; }
.reclaim .area-after { fill: var(--saved); fill-opacity: .18; }
.reclaim .back { fill: var(--node-tint); }
.reclaim .grid { stroke: var(--rule); }
.reclaim .step { stroke: var(--soft); stroke-dasharray: 2 4; }
.reclaim .bar-before { fill: var(--soft); background: var(--soft); }
.reclaim .bar-after { fill: var(--saved); background: var(--saved); }
.reclaim .peak { font-weight: 600; fill: var(--ink); paint-order: stroke; stroke: var(--card); stroke-width: 3px; }
.reclaim .maker { font: 13px var(--mono); margin-top: 10px; overflow-wrap: anywhere; }
.reclaim .amount { display: flex; align-items: center; gap: 6px; font: 12px/13px var(--sans); color: var(--soft); }
.reclaim .amount { padding-right: 2em; white-space: nowrap; }
.reclaim .length { flex: none; height: 11px; min-width: 2px; border-radius: 2px; }
.reclaim h3 { margin: 0 0 8px; }
.reclaim table { border-collapse: collapse; width: 100%; min-width: 640px; font-size: 14px; }
.reclaim th, .reclaim td { text-align: left; vertical-align: top; padding: 6px 14px 6px 0; }
.reclaim th.number, .reclaim td.number { text-align: right; white-space: nowrap; }
.reclaim tr + tr td { border-top: 1px solid var(--rule); }
.reclaim td code { white-space: pre-wrap; }
.reclaim :is(del, ins) { display: block; text-decoration: none; padding-left: 1.2em; text-indent: -1.2em; }
.reclaim del { color: var(--soft); }
.reclaim ins { color: var(--saved); }
.reclaim del::before { content: "− "; }
.reclaim ins::before { content: "+ "; }
</style>""")


def section(outcome: Outcome, data: dict[str, Any]) -> Section:
    """The whole drawing as a section of the page."""
    assert outcome.advice is not None and outcome.first.recording is not None
    peak = data["peak"]
    parts = [_STYLE, Markup("<div class='reclaim'>"), _summary(data)]
    parts += [_card("What to write instead", _suggestions(data["suggestions"]))]
    parts += [_card("It could also be", _hints(data["hints"]))]
    parts += [_card("Memory over time", _timeline(outcome))]
    parts += [_card("Alive at the peak, by the line that made it", _bars(outcome)), Markup("</div>")]
    return Section(_headline(peak["before"], peak["after"]), str(Markup("\n").join(parts)))


def _headline(before: int, after: int | None) -> str:
    if after is None:
        return f"Peak memory: {size(before)}"
    change = f"{after / before - 1:+.1%}".replace("-", "−") if before else "as before"
    return f"Peak memory: {size(before)} before, {size(after)} after ({change})"


def _card(title: str, html: Markup) -> Markup:
    """A part of the page; nothing where there is nothing in it."""
    return Markup("<section class='card'><h3>{}</h3>{}</section>").format(title, html) if html else html


def _summary(data: dict[str, Any]) -> Markup:
    at, proof = data["peak"]["at"], data["proof"]
    where = f"{at['file']}:{at['line']} ({at['operation']})" if at and at["file"] else "no line of the program's own"
    text = (
        f"The most memory is in use at {where}, on {data['device']}: {size(data['peak']['activations_before'])} of it "
    )
    text += f"are activations, {size(data['peak']['kept_for_backward'])} of them kept for the backward. "
    if proof["done"]:
        text += f"With the changes below the losses and gradients of {proof['gradients']} backwards "
        text += f"and the parameters after {proof['parameters']} steps are the same, bit for bit."
        if (seconds := data["seconds_a_step"]) and any(item["kind"] == "recompute" for item in data["suggestions"]):
            text += f" A step took {seconds['before'] * 1000:.1f} ms before, {seconds['after'] * 1000:.1f} ms after."
    elif data["suggestions"]:
        text += "The changes below look safe; they have not been proved."
    else:
        text += "No safe change was found that lowers it."
    return Markup("<p class='summary'>{}</p>").format(text)


# -- over time --------------------------------------------------------------------------------------------------------


def _timeline(outcome: Outcome) -> Markup:
    first, advice = outcome.first.recording, outcome.advice
    assert first is not None and advice is not None
    before, count = advice.before.values, len(advice.before.values)
    top = max(before) or 1
    rows = [Markup("<div class='wide'><svg viewBox='0 0 {} {}' role='img' aria-label='{}'>")]
    rows[0] = rows[0].format(WIDTH, HEIGHT, "Memory over time")
    rows += _backwards(first, count)
    rows += [_tick(value, top) for value in _ticks(top)]
    rows += _steps(first, count)
    rows += _curve(before, [float(number) for number in range(count)], count, top, "before")
    changed = outcome.after.recording if outcome.after is not None else None
    if changed is not None:
        after = Account(changed).curve().values
        rows += _curve(after, _moments(_marks(changed), _marks(first)), count, top, "after")
    rows += _legend(changed is not None)
    rows.append(Markup("</svg></div>"))
    return Markup("\n").join(rows)


def _backwards(recording: Recording, count: int) -> list[Markup]:
    shade = Markup("<rect class='back' x='{:.1f}' y='{}' width='{:.1f}' height='{}'/>")
    height = HEIGHT - _TOP - _BOTTOM
    return [
        shade.format(
            _x(backward.began, count), _TOP, max(_x(backward.ended, count) - _x(backward.began, count), 1), height
        )
        for backward in recording.backwards[:200]
    ]


def _ticks(top: int) -> list[float]:
    """Round numbers from 0 to the peak."""
    unit = 1024 ** min(int(math.log(max(top, 1), 1024)), 3)
    rough = top / unit / _MOST_TICKS
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough) * unit
    return [number * step for number in range(int(top / step) + 1)]


def _tick(value: float, top: int) -> Markup:
    y = _y(value, top)
    line = Markup("<line class='grid' x1='{}' x2='{}' y1='{}' y2='{}'/>").format(_LEFT, WIDTH - _RIGHT, y, y)
    return line + Markup("<text x='{}' y='{}' text-anchor='end'>{}</text>").format(_LEFT - 8, y + 4, size(value))


def _steps(recording: Recording, count: int) -> list[Markup]:
    """The times of the optimizer steps."""
    mark = Markup("<line class='step' x1='{0:.1f}' x2='{0:.1f}' y1='{1}' y2='{2}'/>")
    name = Markup("<text x='{:.1f}' y='{}' text-anchor='end'>step {}</text>")
    rows: list[Markup] = []
    last = -math.inf
    for number, moment in enumerate(recording.steps, 1):
        x = _x(moment + 1, count)
        rows.append(mark.format(x, _TOP, HEIGHT - _BOTTOM))
        if x - last >= _LEAST_STEP:
            rows.append(name.format(x, HEIGHT - _BOTTOM + 16, number))
            last = x
    return rows if len(recording.steps) <= _POINTS else []


def _legend(changed: bool) -> list[Markup]:
    swatch = Markup("<rect class='{}' x='{}' y='8' width='14' height='10' rx='2'/><text x='{}' y='17'>{}</text>")
    entries = [("bar-before", "as it is")] + ([("bar-after", "with the changes")] if changed else [])
    entries.append(("back", "backward"))
    rows: list[Markup] = []
    x = _LEFT
    for kind, words in entries:
        rows.append(swatch.format(kind, x, x + 20, words))
        x += 44 + 7 * len(words)
    label = Markup("<text x='{}' y='17' text-anchor='end'>{}</text>")
    return [*rows, label.format(WIDTH - _RIGHT, "operations in the order they ran")]


def _x(moment: float, count: int) -> float:
    return _LEFT + (WIDTH - _LEFT - _RIGHT) * moment / max(count, 1)


def _y(value: float, top: int) -> float:
    return round(HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / top, 1)


def _marks(recording: Recording) -> list[int]:
    """Times that align two runs: the start and end of each backward, and each step."""
    inner = [moment for backward in recording.backwards for moment in (backward.began, backward.ended)]
    return [0, *sorted([*inner, *recording.steps]), len(recording.operations)]


def _moments(own: list[int], other: list[int]) -> list[float]:
    """For each operation of a run, the aligned time in the other run."""
    if len(own) != len(other):
        own, other = [0, own[-1]], [0, other[-1]]
    found: list[float] = []
    for start, end, first, last in zip(own, own[1:], other, other[1:], strict=False):
        found += [first + (last - first) * step / (end - start) for step in range(end - start)]
    return found


def _curve(values: Sequence[int], moments: Sequence[float], count: int, top: int, kind: str) -> list[Markup]:
    """The curve as the maximum of each interval, so that no peak is lost."""
    width = max(1, -(-len(values) // _POINTS))
    heights = [(moments[start], max(values[start : start + width])) for start in range(0, len(moments), width)]
    points = [f"{_x(moment, count):.1f},{_y(height, top)}" for moment, height in heights]
    ground = _y(0, top)
    area = [f"{_x(heights[0][0], count):.1f},{ground}", *points, f"{_x(heights[-1][0], count):.1f},{ground}"]
    moment, peak = max(heights, key=lambda point: point[1])
    x, y = _x(moment, count), _y(peak, top)
    anchor = "end" if x > WIDTH * 0.8 else "start"
    return [
        Markup("<polygon class='area-{}' points='{}'/>").format(kind, " ".join(area)),
        Markup("<polyline class='{}' points='{}'/>").format(kind, " ".join(points)),
        Markup("<circle class='bar-{}' cx='{:.1f}' cy='{}' r='3.5'/>").format(kind, x, y),
        Markup("<text class='peak' x='{:.1f}' y='{}' text-anchor='{}'>{}</text>").format(
            x + (-6 if anchor == "end" else 6), y - 5, anchor, size(peak)
        ),
    ]


# -- by line ----------------------------------------------------------------------------------------------------------


def _bars(outcome: Outcome) -> Markup:
    """Bytes alive at the peak, by the line that made them."""
    assert outcome.first.recording is not None and outcome.advice is not None
    before = _totals(outcome.first.recording, {})
    after = None
    if outcome.after is not None and outcome.after.recording is not None:
        after = _totals(
            outcome.after.recording,
            {path: _old_lines(outcome.originals[path], new) for path, new in outcome.texts.items()},
        )
    most = max((*before.values(), *(after or {}).values()), default=1)
    rows: list[Markup] = []
    for name in sorted(before, key=lambda name: -before[name])[:_LINES]:
        rows.append(Markup("<div class='maker'>{}</div>").format(name))
        rows.append(_bar("bar-before", before[name], most))
        if after is not None:
            rows.append(_bar("bar-after", after.get(name, 0), most))
    return Markup("\n").join(rows)


def _bar(kind: str, value: int, most: int) -> Markup:
    row = Markup("<div class='amount'><span class='length {}' style='width: {:.1f}%'></span>{}</div>")
    return row.format(kind, _WIDEST * value / most, size(value))


def _totals(recording: Recording, moved: Mapping[str, Mapping[int, int]]) -> dict[str, int]:
    account = Account(recording)
    totals: dict[str, int] = {}
    for entry in by_line(recording, account, account.curve().moment, moved):
        name = f"{entry['file']}:{entry['line']} {entry['operation']}" if entry["file"] else entry["operation"]
        totals[name] = totals.get(name, 0) + entry["bytes"]
    return totals


def _old_lines(before: str, after: str) -> dict[int, int]:
    """Maps lines of a changed file to the original lines."""
    old, new = before.split("\n"), after.split("\n")
    found: dict[int, int] = {}
    for _, first, _, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        found.update({line + 1: first + line - start + 1 for line in range(start, end)})
    return found


def _suggestions(suggestions: Sequence[dict[str, Any]]) -> Markup:
    if not suggestions:
        return Markup("")
    head = Markup(
        "<div class='wide'><table><tr><th>line</th><th>change</th><th class='number'>saves</th>"
        "<th class='number'>of the peak</th><th>safe because</th></tr>"
    )
    row = Markup(
        "<tr><td><code>{}:{}</code></td><td><code><del>{}</del><ins>{}</ins></code></td>"
        "<td class='number'>{}</td><td class='number'>{}</td><td>{}</td></tr>"
    )
    rows = [
        row.format(
            suggestion["site"]["file"],
            suggestion["site"]["line"],
            suggestion["before"],
            suggestion["after"],
            size(suggestion["saves"]),
            f"{suggestion['share']:.1%}",
            escape(suggestion["because"])
            + (Markup("<br>Costs: {}").format(suggestion["costs"]) if suggestion["costs"] else ""),
        )
        for suggestion in suggestions
    ]
    return Markup("\n").join([head, *rows, Markup("</table></div>")])


def _hints(hints: Sequence[dict[str, Any]]) -> Markup:
    """Advice without proof."""
    text = Markup("<p><code>{}:{}</code>: <code>{}</code> could be <code>{}</code> ({} less at the peak): {}.</p>")
    rows = [
        text.format(
            hint["site"]["file"],
            hint["site"]["line"],
            hint["before"],
            hint["after"],
            size(hint["saves"]),
            hint["because"],
        )
        for hint in hints
    ]
    return Markup("\n").join(rows)
