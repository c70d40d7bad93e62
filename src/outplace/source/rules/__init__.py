"""What a finding says, one file a rule. The page of each rule is in `knowledge/pages`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from importlib import import_module

from outplace.knowledge.kinds import BY_NAME
from outplace.knowledge.nodes import keeps_result
from outplace.model import Finding, Site
from outplace.source.graph import ARGUMENT, Hit, Place
from outplace.source.rules.silent import silent_rule

_MODULES: dict[str, Callable[[Hit], str]] = {}


def finding_for(hit: Hit, alike: Sequence[Hit] = ()) -> Finding:
    """Turns a hit into a finding, by the rule of its kind. `alike` are all hits of this write."""
    kind = silent_rule(hit) or BY_NAME[hit.kind]
    severity = "error" if hit.certain else "warning"
    saved_by = site_of(hit.node.place) if hit.node is not None and hit.node.operation != ARGUMENT else None
    site, message = site_of(hit.place), _message(hit) + (f" (if {hit.hypothesis})" if hit.hypothesis else "")
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


def _message(hit: Hit) -> str:
    if hit.kind not in _MODULES:
        _MODULES[hit.kind] = import_module(f"outplace.source.rules.{hit.kind.replace('-', '_')}").message
    return _MODULES[hit.kind](hit)


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
