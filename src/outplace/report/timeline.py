"""The versions of one tensor in a line: what kept it, what changed it, what backward wants."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from outplace.model import Diagnosis, Mutation, is_silent
from outplace.report import words
from outplace.report.glyphs import Glyphs
from outplace.report.layout import wrap
from outplace.report.places import STYLES

MOST_STEPS = 8


def timeline(diagnosis: Diagnosis, width: int, glyphs: Glyphs) -> list[Text]:
    """The timeline in as many lines as it takes; nothing where no tensor was kept or none changed."""
    saved = diagnosis.saved_by
    if saved is None or not diagnosis.mutations:
        return []
    before = [step for step in diagnosis.mutations if _precedes(step, saved.version)]
    after = [words.since(step, saved) for step in diagnosis.mutations if not _precedes(step, saved.version)]
    kept = Text(glyphs.clean(f"{_version(saved.version)}saved by {words.node(saved.node)}"), style=STYLES["saved"])
    if diagnosis.kind == "freed":
        steps = [Text("freed by backward", style=STYLES["overwritten"])]
        return _joined([kept, *steps, Text("backward wants it again", style=STYLES["raised"])], width, glyphs)
    return _joined([*_steps(before, glyphs), kept, *_steps(after, glyphs), _wanted(diagnosis)], width, glyphs)


def _precedes(step: Mutation, version: int | None) -> bool:
    return step.version is not None and version is not None and step.version <= version


def _version(version: int | None) -> str:
    return "" if version is None else f"v{version} "


def _steps(changes: list[Mutation], glyphs: Glyphs) -> list[Text]:
    """One item a change; the middle of a long history is only counted."""
    items = [Text(_step(change, glyphs), style=STYLES["overwritten"]) for change in changes]
    if len(items) <= MOST_STEPS:
        return items
    half = MOST_STEPS // 2
    return [*items[:half], Text(f"{glyphs.dots} {len(items) - 2 * half} more", style="dim"), *items[-half:]]


def _step(change: Mutation, glyphs: Glyphs) -> str:
    count = f" {glyphs.times}{change.count}" if change.count > 1 else ""
    unseen = " (version unchanged)" if change.version is None else ""
    return glyphs.clean(f"{_version(change.version)}{words.operation(change.operation)}{count}{unseen}")


def _wanted(diagnosis: Diagnosis) -> Text:
    saved = diagnosis.saved_by
    if is_silent(diagnosis):
        return Text("backward reads the changed values", style=STYLES["raised"])
    old = "its history" if diagnosis.kind == "detached" else "the old values"
    version = f"v{saved.version}" if saved and saved.version is not None else old
    return Text(f"backward wants {version}", style=STYLES["raised"])


def _joined(items: list[Text], width: int, glyphs: Glyphs) -> list[Text]:
    """Items linked by a line; where the next does not fit, the line goes on below."""
    link = f" {glyphs.link} "
    lines = [items[0]]
    for item in items[1:]:
        if lines[-1].cell_len + cell_len(link) + item.cell_len <= width:
            lines[-1] = Text.assemble(lines[-1], (link, "dim"), item)
        else:
            lines.append(Text.assemble((link[1:], "dim"), item))
    return [piece for line in lines for piece in wrap(line, width)]  # an operation's name can be longer than a line
