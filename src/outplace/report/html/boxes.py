"""The picture behind every in-place bug: the same box with new contents, or a new box to which the name moves."""

from __future__ import annotations

from dataclasses import dataclass

from outplace.knowledge import nodes
from outplace.model import Diagnosis, Mutation
from outplace.report import words
from outplace.report.diff import parse
from outplace.report.html.story import is_refused, version

_DRAWN = {
    "leaf",
    "leaf-view",
    "multi-view",
    "nograd-view",
    "custom-view",
    "out-arg",
    "saved",
    "silent-data",
    "silent-alias",
}
_LONGEST_NAME = 14
_LONGEST_CODE = 46


@dataclass(frozen=True)
class Boxes:
    """What the two halves of the picture show, in the user's own words."""

    name: str
    same: str
    """The line as it is."""
    new: str
    """The line as it could be."""
    holder: str
    """Who else looks into the box: the operation that kept it, or the gradient of a leaf."""
    before: str
    after: str
    refused: bool


def boxes(diagnosis: Diagnosis) -> Boxes | None:
    """None for the kinds that a new box does not help."""
    change = diagnosis.mutations[-1] if diagnosis.mutations else None
    name = diagnosis.tensor.name
    if diagnosis.kind not in _DRAWN or change is None or change.site is None or not name:
        return None
    saved = diagnosis.saved_by
    line = change.site.text.splitlines()[0] if change.site.text else words.operation(change.operation)
    return Boxes(
        name=short(name, _LONGEST_NAME),
        same=short(line, _LONGEST_CODE),
        new=short(_rewritten(diagnosis) or f"{name} = …", _LONGEST_CODE),
        holder=short(nodes.by_node(saved.node).label if saved else f"{_base(name)}.grad", _LONGEST_NAME),
        before=(version(saved.version) if saved else "") or "old values",
        after=_after(change),
        refused=is_refused(diagnosis),
    )


def short(text: str, longest: int) -> str:
    """The beginning of a text that is too long."""
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


def _after(change: Mutation) -> str:
    return version(change.version) or "new values"


def _base(name: str) -> str:
    return name.split("[")[0].removesuffix(".data")


def _rewritten(diagnosis: Diagnosis) -> str | None:
    """The first line that a fix puts in place of the old one."""
    for fix in diagnosis.fixes:
        added = [line.text.strip() for line in parse(fix.diff or "") if line.sign == "+" and line.text.strip()]
        if len(added) == 1:
            return added[0]
    return None
