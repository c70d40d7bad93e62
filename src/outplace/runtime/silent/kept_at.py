"""Where the reference was kept: the statement that gave the written memory another name, or put it in a container.

`labels = input_ids`, `memory.append((obs, action))`, `self.shadow = {n: p.detach() for n, p in ...}`. Only statements
whose value makes no copy, as they stand in the source, are named.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from outplace.knowledge.traits import method_has
from outplace.model import Mutation, Site
from outplace.repair.syntax.code import Code, root_of
from outplace.repair.syntax.flow import bindings, binds, targets_of
from outplace.runtime.locate import sites
from outplace.runtime.record.log import Instruction

_STORING = ("append", "appendleft", "add", "extend", "insert", "put")
_FILLED_BY = ("list", "tuple", "dict", "copy", "zip", "deque", "parameters", "state_dict")
_MOST, _WIDTH = 3, 76


def notes(mutations: Iterable[Mutation], paths: Iterable[str | None], place: Instruction | None) -> tuple[str, ...]:
    """A note on each statement that kept a reference to what these writes change.

    `paths` are further names of it. `place` is the statement itself, if the detector knows it.
    """
    found: dict[tuple[str, int], str] = {}
    located = None if place is None else sites.at_instruction(place)
    if located is not None:
        found[located.site.file, located.site.line] = located.site.text
    named = [path for path in paths if path]
    for site in [mutation.site for mutation in mutations if mutation.site is not None]:
        code = sites.code_of(site.file)
        for statement in _kept(code, site, named) if code is not None and located is None else ():
            found.setdefault((site.file, statement.lineno), ast.unparse(statement))
    return tuple(
        f"Kept without a copy at line {line}: `{_short(text)}`" for (_, line), text in list(found.items())[:_MOST]
    )


def _short(text: str) -> str:
    first = text.strip().split("\n")[0]
    return first if len(first) < _WIDTH else f"{first[:_WIDTH]} ..."


def _kept(code: Code, site: Site, paths: list[str]) -> Iterator[ast.stmt]:
    node = code.at(site)
    statement = None if node is None else code.statement(node)
    if statement is None:
        return
    written = _written(statement)
    if isinstance(written, ast.Name):
        for binding in bindings(code, statement, written.id):
            value = getattr(binding, "iter", getattr(binding, "value", None))
            through = isinstance(binding, ast.For) and isinstance(value, ast.Name | ast.Attribute)
            if isinstance(binding, ast.stmt) and value is not None and shares(value) and not through:
                yield binding
    for path in paths:
        for other in _statements(code, statement, path):
            if other is not statement:
                yield other


def _written(statement: ast.stmt) -> ast.expr | None:
    """The root of what the statement writes."""
    if isinstance(statement, ast.AugAssign):
        return root_of(statement.target)
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
        return root_of(statement.targets[0])
    call = getattr(statement, "value", None)
    if not isinstance(call, ast.Call):
        return None
    own = root_of(call)
    return own if own is not call else root_of(call.args[0]) if call.args else None


def _statements(code: Code, statement: ast.stmt, path: str, hops: int = 2) -> list[ast.stmt]:
    """The statements that put a reference into this place: in the class for `self.x`, else in the function or file."""
    home: ast.AST | None = code.class_of(statement) if path.startswith("self.") else code.scope(statement)
    holder = path.split("[")[0]
    for scope in dict.fromkeys((home, code.tree)):
        nodes = [] if scope is None else [node for node in ast.walk(scope) if isinstance(node, ast.stmt)]
        found = [node for node in nodes if _puts(node, holder)]
        if found or not hops:
            return found
        loops = [node for node in nodes if isinstance(node, ast.For) and binds(node, holder)]
        if loops:  # `for p, b in zip(parameters, best)`: `b` is what `best` holds
            parts = [part for loop in loops for part in _paths(loop.iter)]
            return [node for part in parts for node in _statements(code, statement, part, hops - 1)]
    above = holder.rpartition(".")[0]
    return _statements(code, statement, above, hops - 1) if above not in ("", "self") else []


def _paths(node: ast.expr) -> list[str]:
    """The names that a loop goes through: `best` of `zip(net.parameters(), best)` and of `best.items()`."""
    if isinstance(node, ast.Name | ast.Attribute):
        return [ast.unparse(node)]
    if not isinstance(node, ast.Call):
        return []
    own = [node.func.value] if isinstance(node.func, ast.Attribute) and node.func.attr in ("items", "values") else []
    return [path for part in (*own, *node.args) for path in _paths(part)]


def _puts(statement: ast.stmt, holder: str) -> bool:
    if isinstance(statement, ast.Expr) and isinstance(call := statement.value, ast.Call):
        stores = isinstance(call.func, ast.Attribute) and call.func.attr in _STORING
        return stores and ast.unparse(call.func.value).split("[")[0] == holder and any(map(shares, call.args))  # type: ignore[attr-defined]
    value = getattr(statement, "value", None)
    into = [ast.unparse(target).split("[")[0] for target in targets_of(statement) if not isinstance(target, ast.Tuple)]
    return isinstance(statement, ast.Assign | ast.AnnAssign) and holder in into and value is not None and shares(value)


def shares(node: ast.expr) -> bool:
    """Does this expression give, or hold, a tensor that exists already?"""
    if isinstance(node, ast.Name | ast.Attribute):
        return True
    if isinstance(node, ast.Subscript):
        return shares(node.value)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(shares, node.elts))
    if isinstance(node, ast.Dict):
        return any(map(shares, node.values))
    if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
        return shares(node.elt)
    if isinstance(node, ast.DictComp):
        return shares(node.value)
    if isinstance(node, ast.IfExp):
        return shares(node.body) or shares(node.orelse)
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and method_has(node.func.attr, "may_share"):
        return True
    called = ast.unparse(node.func).split(".")[-1]
    return called in _FILLED_BY or (called[:1].isupper() and any(map(shares, node.args)))
