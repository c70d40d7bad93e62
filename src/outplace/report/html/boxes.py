"""The picture behind every in-place bug: the same box with new contents, or a new box to which the name moves."""

from __future__ import annotations

from dataclasses import dataclass

from outplace.knowledge import nodes
from outplace.knowledge.kind import SilentRule
from outplace.knowledge.kinds import BY_CODE
from outplace.model import Diagnosis, is_refused
from outplace.report import words
from outplace.report.diff import parse
from outplace.report.html.highlight import without_comment
from outplace.report.html.story import version

_HELPED = {
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
"""The kinds of bug that a new box is the answer to."""
_VIEWS = {"leaf-view", "multi-view", "nograd-view", "custom-view"}
_LONGEST_NAME = 15
_LONGEST_CODE = 60


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
    """None for the kinds that a new box does not help, and where nothing can be said about names."""
    change = diagnosis.mutations[-1] if diagnosis.mutations else None
    if diagnosis.kind not in _HELPED or change is None or change.site is None or not diagnosis.tensor.name:
        return None
    saved, refused = diagnosis.saved_by, is_refused(diagnosis)
    line = change.site.text.splitlines()[0] if change.site.text else words.operation(change.operation)
    name, is_part = diagnosis.tensor.name.removesuffix(".data"), change.operation == "__setitem__"
    if "[" in name:
        if diagnosis.kind not in _VIEWS:
            return None  # an item of a list, or a part of a tensor: who knows
        name, is_part = name.split("[")[0], True
    return Boxes(
        name=short(name, _LONGEST_NAME),
        same=short(line, _LONGEST_CODE),
        new=short(_rewritten(diagnosis, name) or _in_general(change.operation, name, line, is_part), _LONGEST_CODE),
        holder=short(_holder(diagnosis, name), _LONGEST_NAME),
        before=(version(saved.version) if saved else "") or ("its values" if refused else "old values"),
        after=version(change.version) or "new values",
        refused=refused,
    )


def _holder(diagnosis: Diagnosis, name: str) -> str:
    if diagnosis.saved_by is not None:
        return nodes.by_node(diagnosis.saved_by.node).label
    rule = BY_CODE.get(diagnosis.code)
    if isinstance(rule, SilentRule):
        return rule.holder
    return f"{name}.grad" if diagnosis.kind == "leaf" else "autograd"


def short(text: str, longest: int) -> str:
    """The beginning of a text that is too long."""
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


def _rewritten(diagnosis: Diagnosis, name: str) -> str | None:
    """The line by which a fix gives the name to a new tensor."""
    for fix in diagnosis.fixes:
        added = [line.text.strip() for line in parse(fix.diff or "") if line.sign == "+" and line.text.strip()]
        if len(added) == 1 and added[0].startswith(f"{name} = "):
            return without_comment(added[0])
    return None


def _in_general(operation: str, name: str, line: str, is_part: bool) -> str:
    symbol = words.operation(operation)
    if is_part:
        return f"{name} = torch.where(…, {name})"
    if symbol.endswith("=") and symbol != "out=":
        return f"{name} = {name} {symbol[:-1]} …"
    has_twin = f".{operation}(" in line and operation != "copy_"
    return f"{name} = {name}.{operation[:-1]}(…)" if has_twin else f"{name} = …"
