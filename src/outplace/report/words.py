"""Operations, nodes and tensors in the words a report uses for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from outplace.files import naming
from outplace.knowledge import nodes
from outplace.knowledge.kind import SilentRule
from outplace.knowledge.kinds import BY_CODE, BY_NAME
from outplace.model import Diagnosis, Finding, Mutation, SavedTensor, Tensor, is_silent

_OPERATIONS = {
    "__setitem__": "item assignment",
    "__iadd__": "+=",
    "__isub__": "-=",
    "__imul__": "*=",
    "__itruediv__": "/=",
    "__idiv__": "/=",
    "__ifloordiv__": "//=",
    "__imod__": "%=",
    "__ipow__": "**=",
    "__imatmul__": "@=",
    "__iand__": "&=",
    "__ior__": "|=",
    "__ixor__": "^=",
    "__ilshift__": "<<=",
    "__irshift__": ">>=",
}

_HEADLINES = {
    "leaf": "{tensor} is a leaf that requires grad: {op} cannot change it in place",
    "leaf-view": "{tensor} is a view of a leaf that requires grad: {op} cannot change it in place",
    "multi-view": "{tensor} is one of several views made by one call: {op} cannot change it in place",
    "nograd-view": "{tensor} is a view made with grad off: {op} cannot change it in place with grad on",
    "custom-view": "{tensor} is a view returned by a custom Function: {op} cannot change it in place",
    "inference": "{tensor} is an inference tensor: {op} cannot use it outside inference_mode",
    "out-arg": "{tensor} cannot be written by out= in a call that has a tensor that requires grad",
    "expanded": "{tensor} keeps several elements in one memory location: {op} cannot write into it",
    "shape-dtype": "{tensor} cannot hold the result of {op}",
    "overlap": "{tensor} shares memory with what {op} reads, at other places",
    "saved": "{tensor} was overwritten after {node} kept it for backward",
    "stepped": "{tensor} was updated by {op} between a forward and its backward",
    "detached": "{tensor} was detached in place, and backward needs its history",
    "replaced": "{tensor} was replaced in the graph by {op}, and its gradient is asked for",
    "underivable": "{tensor} was changed by {op}, which has no derivative that backward could use",
    "recomputed": "{tensor} was recomputed with other values than its forward had",
    "freed": "{tensor} leads into a graph that an earlier backward has freed",
    "silent-data": "{tensor} was changed, unseen by autograd, after {node} kept it for backward",
    "silent-alias": "{tensor} was changed through shared memory after {node} kept it for backward",
    "silent-other": "{tensor} was changed by {op}, and what it held before is still needed",
}

_SHARED = "{tensor} was changed by {op}, and with it all that shares its memory"
"""For a silent bug that no node is part of."""

_CHANGED_BASE = "{tensor} is one of several views made by one call, and {op} has since changed what they are views of"
"""For a view that is refused where it is read."""

_LEAF_OR_VIEW = "{tensor} is a leaf that requires grad, or a view of one: {op} cannot change it in place"
"""For item assignment, which writes into a view that it makes itself."""


def operation(name: str) -> str:
    """`__iadd__` as it is written, `+=`; other operations by their own name."""
    return _OPERATIONS.get(name, name)


def node(name: str) -> str:
    """The operation behind a node as a user knows it: `ExpBackward0` is exp."""
    return nodes.by_node(name).label


def tensor(subject: Tensor) -> str:
    """`h (float32[4, 8])`, or as much of it as is known."""
    known = form(subject)
    if subject.name:
        return f"{subject.name} ({known})" if known else subject.name
    if subject.dtype:
        return f"{'an' if known[0] in 'aeiou' else 'a'} {known} tensor"
    return f"a tensor of shape {known}" if known else "a tensor"


def form(subject: Tensor) -> str:
    """`float32[4, 8]`, or as much of it as is known; `float32[4, 8], [2, 8] on this rank` if ranks share it."""
    whole = f"{(subject.dtype or '').removeprefix('torch.')}{'' if subject.shape is None else list(subject.shape)}"
    local = subject.local_shape
    return whole if local is None or local == subject.shape else f"{whole}, {list(local)} on this rank"


def rule_name(bug: Diagnosis | Finding) -> str:
    """The name of the rule that a bug breaks; for most rules it is the kind."""
    rule = BY_CODE.get(bug.code)
    return bug.kind if rule is None else rule.name


def headline(diagnosis: Diagnosis) -> str:
    """What happened, to which tensor, in one sentence without a full stop."""
    template = _HEADLINES.get(diagnosis.kind)
    if template is None:
        known = BY_NAME.get(diagnosis.kind)
        summary = known.summary if known else first_line(diagnosis.error)
        return f"{tensor(diagnosis.tensor)}: {summary}" if diagnosis.tensor != Tensor(None) else summary
    saved, changes = diagnosis.saved_by, diagnosis.mutations
    if diagnosis.kind == "leaf-view" and changes and changes[0].operation == "__setitem__":
        template = _LEAF_OR_VIEW
    elif diagnosis.kind == "multi-view" and changes and diagnosis.raised_at not in (None, changes[0].site):
        template = _CHANGED_BASE
    elif is_silent(diagnosis) and saved is None:
        template = _silent_headline(diagnosis)
    return template.format(
        tensor=tensor(diagnosis.tensor),
        op=operation(changes[0].operation) if changes else "an in-place operation",
        node=nodes.spelled(node(saved.node)) if saved else "a node",
    )


def _silent_headline(diagnosis: Diagnosis) -> str:
    """For a silent bug that no node is part of."""
    rule = BY_CODE.get(diagnosis.code)
    own = rule.headline if isinstance(rule, SilentRule) else ""
    return own or (_SHARED if diagnosis.kind == "silent-other" else _HEADLINES[diagnosis.kind])


def why(diagnosis: Diagnosis) -> str:
    """The reason, as a sentence. The name of an operation, as in `exp keeps its result`, is left as it is."""
    text = diagnosis.why.strip()
    return f"The {text[4:]}" if text.startswith("the ") else text


def first_line(text: str) -> str:
    """The first line of a message, or a word for its absence."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")


def step(change: Mutation, times: str, arrow: str) -> str:
    """The operation with how often it ran and its version step: `+= (v0 → v1)`, `add_ ×12 (up to v12)`."""
    name = operation(change.operation)
    if change.version is None:
        return f"{name} {times}{change.count}" if change.count > 1 else name
    if change.count > 1:
        return f"{name} {times}{change.count} (up to v{change.version})"
    return f"{name} (v{max(change.version - 1, 0)} {arrow} v{change.version})"


def since(change: Mutation, saved: SavedTensor | None) -> Mutation:
    """A line of a loop may have written before the save, too: only the versions after it are of interest."""
    if saved is None or saved.version is None or change.version is None or change.version <= saved.version:
        return change
    return replace(change, count=min(change.count, change.version - saved.version))


def is_unseen(diagnosis: Diagnosis, change: Mutation) -> bool:
    """Did the write leave no trace that autograd could see?"""
    return change.version is None and diagnosis.kind in ("silent-data", "silent-alias")


_MOST_KEPT = 5


def also_kept(others: Sequence[SavedTensor], times: str) -> str:
    """The other nodes that kept the tensor, those of one line counted together."""
    counts: dict[str, int] = {}
    for saved in others:
        spot = f" at {naming.place(saved.site.file, saved.site.line)}" if saved.site else ""
        counts[node(saved.node) + spot] = counts.get(node(saved.node) + spot, 0) + 1
    named = [f"{name} {times}{count}" if count > 1 else name for name, count in counts.items()]
    more = f" ({len(named) - _MOST_KEPT} more)" if len(named) > _MOST_KEPT else ""
    return ", ".join(named[:_MOST_KEPT]) + more
