"""The kinds of bug, their rule codes, and the page that explains each."""

from __future__ import annotations

from importlib import resources

from outplace.knowledge.kind import Kind
from outplace.knowledge.silent_rules import RULES

FAMILIES: tuple[Kind, ...] = (
    # OUT1xx: raised where the operation stands
    Kind("OUT101", "leaf", "a leaf that requires grad is modified in place"),
    Kind("OUT102", "leaf-view", "a view of a leaf that requires grad is modified in place"),
    Kind("OUT103", "multi-view", "one of several views that one call made (unbind, split, chunk) is modified in place"),
    Kind("OUT104", "nograd-view", "a view made under no_grad or inference_mode is modified in place with grad on"),
    Kind("OUT105", "custom-view", "a view returned by a custom autograd.Function is modified in place"),
    Kind("OUT106", "inference", "an inference tensor is modified or saved outside inference_mode"),
    Kind("OUT107", "out-arg", "out= is used with a tensor that requires grad"),
    Kind("OUT108", "expanded", "several elements of the written-to tensor share one memory location"),
    Kind(
        "OUT109", "shape-dtype", "the result of an in-place operation does not fit its target: shape, dtype or layout"
    ),
    Kind("OUT110", "overlap", "an in-place operation reads memory that it writes at another place"),
    Kind("OUT111", "autograd-state", "an in-place change of autograd state, size or storage that PyTorch refuses"),
    Kind("OUT112", "dirty", "a custom autograd.Function breaks the rules for inputs it modifies in place"),
    Kind("OUT113", "transform", "an in-place operation that torch.func or forward-mode AD cannot follow"),
    Kind("OUT114", "compiled", "an in-place operation that torch.compile, export or a custom operator refuses"),
    # OUT2xx: raised at backward
    Kind("OUT201", "saved", "a tensor that backward needs is modified after it was saved"),
    Kind("OUT202", "stepped", "parameters are updated between a forward and its backward"),
    Kind("OUT203", "detached", "a tensor that backward needs, or the loss itself, was detached in place"),
    Kind("OUT204", "replaced", "a gradient is asked for a tensor that an in-place operation has replaced in the graph"),
    Kind("OUT205", "underivable", "an in-place operation has no derivative that backward could use"),
    Kind("OUT206", "recomputed", "a checkpointed region recomputes other values than its forward had"),
    Kind("OUT207", "freed", "backward comes into a part of the graph that an earlier backward has freed"),
    # OUT3xx: raised nowhere
    Kind("OUT301", "silent-data", "a write through .data or a detached alias changes what backward needs, silently"),
    Kind("OUT302", "silent-alias", "memory shared with numpy and the like changes under autograd, silently"),
    Kind("OUT303", "silent-other", "aliased lists, kept references or hooks that write make training wrong, silently"),
)

KINDS: tuple[Kind, ...] = (*FAMILIES, *RULES)
"""All rules: the families, then the silent rules that belong to three of them."""

BY_NAME: dict[str, Kind] = {kind.name: kind for kind in KINDS}
BY_CODE: dict[str, Kind] = {kind.code: kind for kind in KINDS}


def find(word: str) -> Kind | None:
    """The kind called `word`, by name or by code, whatever its case."""
    return BY_NAME.get(word.lower()) or BY_CODE.get(word.upper())


def members(family: Kind) -> tuple[Kind, ...]:
    """The rules that belong to a family, without the family itself."""
    return tuple(rule for rule in RULES if rule.family == family.name)


def page(kind: Kind) -> str:
    """The Markdown page that explains a rule: the same text on the web, in `outplace explain` and in editors.

    The page of a family ends with a table of its rules.
    """
    text = (resources.files(__package__) / "pages" / f"{kind.code}.md").read_text("utf-8")
    rows = [f"| {rule.code} | `{rule.name}` | {rule.summary} |" for rule in members(kind)]
    table = ["", "## Rules of this family", "", "| code | name | what happens |", "|---|---|---|", *rows, ""]
    return text + "\n".join(table) if rows else text
