"""Turns a hit into a finding: its rule, its place, and what it says. The page of each rule is in `knowledge/pages`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from outplace.knowledge import silent_rules
from outplace.knowledge.kind import SilentRule
from outplace.knowledge.kinds import BY_NAME
from outplace.knowledge.nodes import describe_saved, keeps_result
from outplace.model import Finding, Site
from outplace.source.graph import ARGUMENT, Hit, Place


def finding_for(hit: Hit, alike: Sequence[Hit] = ()) -> Finding:
    """Turns a hit into a finding, by the rule of its kind. `alike` are all hits of this write."""
    kind = silent_rule(hit) or BY_NAME[hit.kind]
    severity = "error" if hit.certain else "warning"
    saved_by = site_of(hit.node.place) if hit.node is not None and hit.node.operation != ARGUMENT else None
    site, message = site_of(hit.place), _MESSAGES[hit.kind](hit) + (f" (if {hit.hypothesis})" if hit.hypothesis else "")
    order = hit.order.order() if hit.order is not None else None
    return Finding(
        hit.kind, kind.code, severity, site, message, saved_by, None, order, hit.detail or _role(hit),  # type: ignore[arg-type]
        _savers([hit, *(other for other in alike if other.certain or not hit.certain)]), hit.hypothesis,
    )  # fmt: skip


def _role(hit: Hit) -> str:
    """What the operation keeps: `result` for its own result."""
    kept = hit.node is not None and hit.save is not None and keeps_result(hit.node.operation, hit.save.saved_as)
    return "result" if kept else ""


def _savers(hits: Sequence[Hit]) -> tuple[tuple[Site, str], ...]:
    """The operations that keep what is written, each once."""
    places = {(id(hit.node.place.node), _role(hit)): hit.node.place for hit in hits if hit.node is not None}
    return tuple((site_of(place), role) for (_, role), place in places.items())


def site_of(place: Place) -> Site:
    """A place as the model has it."""
    node = place.node
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    end_line, end_column = getattr(node, "end_lineno", line), getattr(node, "end_col_offset", column)
    if isinstance(node, ast.stmt) and hasattr(node, "body"):
        end_line, end_column = line, len(_line(place, line).encode())
    own = node.func.end_lineno if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    if own is not None and own > line and isinstance(node, ast.Call):
        line, column = own, (node.func.end_col_offset or 0) - len(node.func.attr.encode())  # type: ignore[attr-defined]
    text = _text(place) or _line(place, line).strip()
    return Site(
        place.module.path,
        line,
        end_line,
        _characters(place, line, column),
        _characters(place, end_line, end_column),
        place.function,
        text if line == getattr(node, "lineno", line) else _line(place, line).strip(),
    )


def _text(place: Place) -> str:
    """What `ast.get_source_segment` gives, which would split the whole file once more for each place."""
    node = place.node
    if getattr(node, "end_lineno", None) is None:
        return ""
    lines = [line.encode() for line in place.module.lines[node.lineno - 1 : node.end_lineno]]  # type: ignore[attr-defined]
    lines[-1] = lines[-1][: node.end_col_offset]  # type: ignore[attr-defined]
    lines[0] = lines[0][node.col_offset :]  # type: ignore[attr-defined]
    return b"\n".join(lines).decode(errors="replace")


def _line(place: Place, number: int) -> str:
    lines = place.module.lines
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _characters(place: Place, line: int, column: int) -> int:
    return len(_line(place, line).encode()[:column].decode(errors="replace"))


def silent_rule(hit: Hit) -> SilentRule | None:
    """The rule; None where the hit is of a family as a whole."""
    rule = silent_rules.BY_NAME.get(hit.detail)
    return rule if rule is not None and rule.family == hit.kind else None


def _custom_view(hit: Hit) -> str:
    if hit.detail == "read later":
        return (
            "this changes the memory that the output of a custom autograd.Function (or of a module with a backward "
            "hook) is a view of, and it is read after that: write out of place"
        )
    return "the output of a custom autograd.Function (or of a module with a backward hook) is a view, modified in place"


def _expanded(hit: Hit) -> str:
    if hit.detail == "parameter":
        return (
            "a parameter is made of an expanded tensor, whose elements share memory: clone() it in `nn.Parameter(...)`"
        )
    if hit.detail == "loaded":
        return "a parameter lies in expanded memory, whose elements are one, and cannot be loaded: make it of a clone()"
    return "the written-to tensor is expanded: several of its elements share one memory location"


def _leaf(hit: Hit) -> str:
    if hit.detail == "stale":
        return "this view is older than a write elsewhere that needs grad, and PyTorch takes it for a leaf: slice again"
    return "a leaf that requires grad is modified in place while grad mode is on"


def _multi_view(hit: Hit) -> str:
    if hit.detail == "read later":
        return (
            "this changes a tensor, and one of several views of it (unbind, split, chunk, iteration) that were made "
            "before is read after it: make them again"
        )
    return "one of several views made by one call (unbind, split, chunk, iteration) is modified in place"


def _saved(hit: Hit) -> str:
    assert hit.write is not None and hit.node is not None and hit.save is not None
    name = hit.write.target or "the tensor"
    how = hit.write.operation
    wrote = how if " " in how else f"`{how}`"  # `+=` is code, item assignment is words
    if hit.node.operation == ARGUMENT:
        return f"{wrote} overwrites {name}, which the caller has handed in"
    keeps = describe_saved(hit.node.operation, hit.save.saved_as)
    return f"{wrote} overwrites {name}, which backward needs: {keeps}"


def _shape_dtype(hit: Hit) -> str:
    if hit.detail.startswith("shape"):
        return "the other operand does not fit: an in-place operation cannot change the shape of its target"
    return "the result has a dtype that the target cannot hold (a fraction for integers, say): write out of place"


def _silent_alias(hit: Hit) -> str:
    rule = silent_rule(hit)
    if rule is not None:
        return rule.message
    return "this numpy array shares its memory with a tensor that backward needs: the gradient is silently wrong"


def _silent_data(hit: Hit) -> str:
    if hit.node is None or hit.save is None:
        return silent_rules.BY_NAME[hit.detail].message
    keeps = describe_saved(hit.node.operation, hit.save.saved_as)
    return f"a write that autograd cannot see changes what backward needs ({keeps}): the gradient is silently wrong"


def _stepped(hit: Hit) -> str:
    assert hit.write is not None
    return f"`{hit.write.operation}` changes parameters in place before a backward that still needs their old values"


_MESSAGES: dict[str, Callable[[Hit], str]] = {
    "autograd-state": lambda _: "a view cannot be detached in place: `x = x.detach()`",
    "custom-view": _custom_view,
    "detached": lambda _: "`detach_()` cuts a tensor out of the graph that backward still needs: use `x = x.detach()`",
    "expanded": _expanded,
    "inference": lambda hit: f"a tensor made in inference_mode is {hit.detail} outside of it",
    "leaf": _leaf,
    "leaf-view": lambda _: "a view of a leaf that requires grad is modified in place while grad mode is on",
    "multi-view": _multi_view,
    "nograd-view": lambda _: "a view made under no_grad is modified in place while grad mode is on",
    "out-arg": lambda _: "`out=` does not support autograd, and one of the arguments requires grad",
    "overlap": lambda _: (
        "what is read overlaps what is written, so the result would depend on the order: read a `.clone()`"
    ),
    "saved": _saved,
    "shape-dtype": _shape_dtype,
    "silent-alias": _silent_alias,
    "silent-data": _silent_data,
    "silent-other": lambda hit: silent_rules.BY_NAME[hit.detail].message,
    "stepped": _stepped,
}
"""What a finding of each kind says: why PyTorch refuses it, or what goes wrong."""
