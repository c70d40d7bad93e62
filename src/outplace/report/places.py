"""The places of a diagnosis, each with its role and its label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from outplace.files import naming
from outplace.knowledge import nodes
from outplace.model import Diagnosis, Mutation, Site, is_refused, is_silent
from outplace.report import words
from outplace.report.glyphs import Glyphs

Role = Literal["saved", "overwritten", "raised"]

STYLES: dict[Role, str] = {"saved": "cyan", "overwritten": "red", "raised": "yellow"}

MOST_MUTATIONS = 6

_RAISED = {
    "saved": "raised here: backward needs it",
    "stepped": "raised here: backward needs the values before the update",
    "replaced": "raised here: the gradient is asked for",
    "recomputed": "raised here: the forward is run again",
    "freed": "raised here: backward needs it again",
}

_SAID = {"rebound": "replaced", "grad =": "assigned", "repeated index": "added"}
"""What is done by these operations, in a word."""
_VERBS = {"stepped": "updated", "detached": "detached", "freed": "freed"}
_FREED_HERE = "raised here: this backward needs it again, the one before has freed it"


@dataclass(frozen=True)
class Place:
    """A labelled place; `site` is None where the label is all that is known."""

    role: Role
    label: str
    site: Site | None
    chain: tuple[Site, ...] = ()


def places(diagnosis: Diagnosis, glyphs: Glyphs) -> list[Place]:
    """The places of a diagnosis in the order of the story: made, saved, kept, overwritten, used again, raised."""
    return [*_origins(diagnosis), *_changes(diagnosis, glyphs), *_used(diagnosis), *_end(diagnosis)]


def _origins(diagnosis: Diagnosis) -> Iterator[Place]:
    if diagnosis.made_at:
        yield Place("saved", "made here", diagnosis.made_at)
    saved = diagnosis.saved_by
    if saved:
        fact = nodes.describe_saved(saved.node, saved.saved_as)
        label = f"saved here: {fact}" if saved.site else f"saved at an unknown line: {fact}"
        yield Place("saved", label, saved.site, saved.chain)
    if diagnosis.kept_at:
        yield Place("overwritten", "kept here, with its graph, for the next step", diagnosis.kept_at)


def _used(diagnosis: Diagnosis) -> Iterator[Place]:
    if diagnosis.used_at:
        yield Place("raised", "used again here", diagnosis.used_at)


def _changes(diagnosis: Diagnosis, glyphs: Glyphs) -> Iterator[Place]:
    for change in diagnosis.mutations[:MOST_MUTATIONS]:
        if _freed_here(diagnosis, change):
            continue  # told where it is raised
        yield Place("overwritten", _change(diagnosis, change, glyphs), change.site, change.chain)
    rest = diagnosis.mutations[MOST_MUTATIONS:]
    if rest:
        spots = [naming.place(change.site.file, change.site.line) for change in rest if change.site]
        last = f", the last at {spots[-1]}" if spots else ""
        yield Place("overwritten", f"overwritten by {len(rest)} more operations{last}", None)


def _change(diagnosis: Diagnosis, change: Mutation, glyphs: Glyphs) -> str:
    """The version step. A refused write and a silent write have none to show."""
    if _refused(diagnosis, change):
        return f"refused here: {words.operation(change.operation)}"
    spot = "here" if change.site else "at an unknown line"
    if change.operation in _SAID:
        return f"{_SAID[change.operation]} {spot}"
    unseen = ", unseen by autograd" if words.is_unseen(diagnosis, change) else ""
    verb = _VERBS.get(diagnosis.kind, "overwritten")
    return f"{verb} {spot}: {words.step(change, glyphs.times, glyphs.arrow)}{unseen}"


def _end(diagnosis: Diagnosis) -> Iterator[Place]:
    if diagnosis.raised_at is None or any(_refused(diagnosis, change) for change in diagnosis.mutations):
        return
    if is_refused(diagnosis):
        label = "refused here"
    elif is_silent(diagnosis):
        label = "used here: backward reads the changed values"
    elif any(_freed_here(diagnosis, change) for change in diagnosis.mutations):
        label = _FREED_HERE
    else:
        label = _RAISED.get(diagnosis.kind, "raised here")
    yield Place("raised", label, diagnosis.raised_at)


def _refused(diagnosis: Diagnosis, change: Mutation) -> bool:
    """Whether this operation is the one that PyTorch refused where it stood."""
    raised, site = diagnosis.raised_at, change.site
    if not is_refused(diagnosis) or site is None:
        return False
    return raised is None or (raised.file, raised.line) == (site.file, site.line)


def _freed_here(diagnosis: Diagnosis, change: Mutation) -> bool:
    """Is it the backward that fails, one loop iteration earlier?"""
    return diagnosis.kind == "freed" and change.site is not None and change.site == diagnosis.raised_at
