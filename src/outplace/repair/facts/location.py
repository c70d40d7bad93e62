"""A place of an in-place write: its node, its statement, and the tensor it writes."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from outplace.knowledge.traits import having, method_has
from outplace.model import Safety, Site
from outplace.repair.facts.aliases import facts_of, facts_of_value, facts_of_write, may_rebind, span_of
from outplace.repair.facts.bug import Bug, Candidate
from outplace.repair.syntax.calls import has_flag, is_inplace_call, is_writing_name, method_call
from outplace.repair.syntax.code import Code, is_custom_operator, is_library
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import bindings, binds, flat, read_later
from outplace.source.facts import Answer, Container, Span, WriteFacts

Style = Literal["auto", "blend", "at"]
STYLES: tuple[Style, ...] = ("auto", "blend", "at")


_OVERLAPPING = ("as_strided", "unfold")
"""Views whose elements may share an address, apart from expanded ones."""


@dataclass(frozen=True)
class Place:
    """One writing operation of a bug."""

    files: Files
    code: Code
    bug: Bug
    node: ast.expr | ast.stmt
    statement: ast.stmt
    style: Style = "auto"

    @cached_property
    def target(self) -> ast.expr | None:
        """The expression for the written tensor, as in the operation."""
        return target_of(self.node)

    @cached_property
    def holder(self) -> ast.expr | None:
        """The holder of the written tensor: `x` of `x[i, :2]`, of `x[0].data`, of `x.view(-1)`; `d["k"]` of a dict."""
        node = self.target
        while node is not None:
            part = isinstance(node, ast.Subscript) and not self.in_container(node)
            if part or (isinstance(node, ast.Attribute) and node.attr in self._parts):
                node = node.value  # type: ignore[attr-defined]
            elif isinstance(node, ast.Call) and _is_view(node):
                node = node.func.value  # type: ignore[attr-defined]
            else:
                break
        return node if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) else None

    @property
    def _parts(self) -> frozenset[str]:
        """Attributes that are another form of the tensor itself.

        Autograd sees no write through a tensor's `.data`. Where it does, that is the data of a PackedSequence.
        """
        return having("view_attribute") - ({"data"} if self.bug.kind == "saved" else set())

    def in_container(self, node: ast.Subscript) -> bool:
        """Is it an element of a list or a dict, not a part of a tensor? True only if that is certain."""
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            return True
        if isinstance(node.slice, ast.Slice | ast.Tuple) or not isinstance(node.value, ast.Name | ast.Attribute):
            return False  # `x.chunk(2)[0]` is a part of `x`
        return self._is_key(node) or bool(self._containers(node.value))

    def _containers(self, node: ast.expr) -> frozenset[Container]:
        return self.files.inquiry.containers(span_of(self.code, node))

    def _is_key(self, node: ast.Subscript) -> bool:
        """Is it `d[key]` in `for key in d` or `for key, value in d.items()`: a key of a dict?"""
        for loop in self.code.loops(self.statement):
            if isinstance(loop, ast.For) and isinstance(node.slice, ast.Name) and binds(loop, node.slice.id):
                keys = [ast.unparse(node.value), f"{ast.unparse(node.value)}.keys()"]
                first = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else None
                pairs = isinstance(first, ast.Name) and first.id == node.slice.id
                items = pairs and ast.unparse(loop.iter) == f"{ast.unparse(node.value)}.items()"
                return items or (isinstance(loop.target, ast.Name) and ast.unparse(loop.iter) in keys)
        return False

    @cached_property
    def path(self) -> str | None:
        """The holder as a name or a dotted name."""
        return ast.unparse(self.holder) if isinstance(self.holder, ast.Name | ast.Attribute) else None

    @cached_property
    def whole(self) -> bool:
        """Is the whole tensor written, not a part or a view of it?"""
        made_here = isinstance(self.target, ast.Call) and not _is_view(self.target) and self.holder is None
        return self.target is not None and (self.target is self.holder or made_here)

    @cached_property
    def rebinding(self) -> Answer:
        """May the holder be rebound?"""
        if isinstance(self.holder, ast.Subscript):
            return self._element()
        if self.path is None or (not self.whole and self.bug.kind != "expanded" and self._is_expanded(self.path)):
            return "no"
        return may_rebind(self.files, self.code, self.statement, self.path)

    def _is_expanded(self, path: str) -> bool:
        """May several of its elements share an address? Then a write to one changes the others, but not in a copy."""
        values = [getattr(binding, "value", None) for binding in bindings(self.code, self.statement, path)]
        inside = [node for value in values if isinstance(value, ast.AST) for node in ast.walk(value)]
        names = [node.attr for node in inside if isinstance(node, ast.Attribute)]
        return any(method_has(name, "expands") or name in _OVERLAPPING for name in names)

    def _element(self) -> Answer:
        """An element of a list or dict. The container gets the new tensor; other names of the element would not."""
        text = ast.unparse(self.holder) if self.holder is not None else ""
        container = self.holder.value if isinstance(self.holder, ast.Subscript) else None
        if isinstance(container, ast.Name) and "tuple" in self._containers(container):
            used = not isinstance(self.statement, ast.Expr | ast.AugAssign)  # only its value
            return "yes" if used and not read_later(self.code, self.statement, container.id) else "no"
        return "yes" if facts_of(self.files, self.code, self.statement, text).may_rebind == "yes" else "no"

    @cached_property
    def facts(self) -> WriteFacts:
        """What the analysis knows of the written tensor."""
        if self.holder is not None:
            return facts_of(self.files, self.code, self.statement, ast.unparse(self.holder))
        argument = self.node.args[0] if isinstance(self.node, ast.Call) and self.node.args else None
        value = self.target if self.target is not None else argument
        return WriteFacts() if value is None else facts_of_value(self.files, self.code, value)

    @cached_property
    def trail(self) -> frozenset[Span]:
        """The expressions that gave the written memory before."""
        shown = self.target is not None and self.facts.trails
        facts = self.facts if shown else facts_of_write(self.files, self.code, self.node)
        return frozenset(span for trail in facts.trails for span in trail)

    def candidate(self, title: str, safety: Safety, edits: list[Edit], provable: bool = False) -> Candidate:
        """A candidate that changes this file."""
        return Candidate(title, safety, {self.code.path: tuple(edits)}, provable)


def _is_view(call: ast.Call) -> bool:
    """`x.view(-1)`, `x.add_(1)`; not `self.fc(x)` or `x.exp()`, which have their own memory."""
    function = call.func
    if not isinstance(function, ast.Attribute) or is_library(function.value):
        return False
    return method_has(function.attr, "may_share") or is_inplace_call(call)


def place_at(files: Files, bug: Bug, site: Site, style: Style = "auto") -> Place | None:
    """The place of a site; None if the file does not belong to the project or does not contain the site."""
    code = files.code(site.file)
    node = code.at(site) if code is not None else None
    if code is None or node is None:
        return None
    statement = code.statement(node)
    if statement is None:
        return None
    if isinstance(statement, ast.AugAssign) or (isinstance(node, ast.expr) and target_of(node) is None):
        node = statement if target_of(statement) is not None else node
    return Place(files, code, bug, node, statement, style)


def target_of(node: ast.AST) -> ast.expr | None:
    """The tensor that an operation writes."""
    if isinstance(node, ast.Expr):
        return target_of(node.value)
    if isinstance(node, ast.AugAssign):
        return node.target
    if isinstance(node, ast.Assign):
        return _target_of_assignment(node)
    return _target_of_call(node) if isinstance(node, ast.Call) else None


def _target_of_assignment(node: ast.Assign) -> ast.expr | None:
    """`x[0]` of `x[0] = v` and of `x[0], x[1] = a, b`; `w.data` of `w.data = v`."""
    items = [target for target in flat(node.targets) if isinstance(target, ast.Subscript)]
    if len({ast.unparse(item.value) for item in items}) == 1:
        return items[0]
    data = [target for target in node.targets if isinstance(target, ast.Attribute) and target.attr == "data"]
    return data[0] if len(data) == 1 else None


def _target_of_call(call: ast.Call) -> ast.expr | None:
    """`y` of `torch.add(x, 1, out=y)`, `x` of `x.add_(1)`, `torch.relu_(x)` and `F.relu(x, inplace=True)`."""
    out = next((keyword.value for keyword in call.keywords if keyword.arg == "out"), None)
    if out is not None:
        return out
    method = method_call(call)
    if method is not None and is_writing_name(method.name):
        if not is_library(method.receiver):
            return start_of_chain(method.receiver)
        known = call.args and not is_custom_operator(call.func)
        return start_of_chain(call.args[0]) if known else None  # `torch.clamp_(x.sigmoid_(), 0)`
    return call.args[0] if has_flag(call) and call.args else None


def start_of_chain(node: ast.expr) -> ast.expr:
    """`y` of `y.mul_(2).add_(1)`: a writing method returns the tensor it wrote."""
    while isinstance(node, ast.Call):
        method = method_call(node)
        if method is None or not is_writing_name(method.name) or is_library(method.receiver):
            break
        node = method.receiver
    return node
