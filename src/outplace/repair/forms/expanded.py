"""Expanded memory gets a copy where it is made: `self.gains = gains.expand(n, -1)`, written somewhere else."""

from __future__ import annotations

import ast

from outplace.knowledge.traits import having, method_has
from outplace.repair.facts.origins import class_name, module_made_at
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import bindings


def copied(files: Files, code: Code, statement: ast.stmt, held: ast.expr) -> tuple[str, list[Edit]] | None:
    """The file and the edits, for a name or an attribute that one assignment has made to hold expanded memory."""
    values = _values(code, statement, held.id) if isinstance(held, ast.Name) else [held]
    made = [
        (code, one) if isinstance(one, ast.Call) else module_made_at(files, code, one) or _registered(files, one)
        for one in values
    ]
    if len(made) != 1 or made[0] is None:
        return None
    home, call = made[0]
    if not isinstance(call.func, ast.Attribute) or not method_has(call.func.attr, "expands"):
        return None
    end = home.span(call)[1]
    return home.path, [Edit(end, end, ".clone()")]


def _registered(files: Files, held: ast.expr) -> tuple[Code, ast.Call] | None:
    """What `self.register_buffer("name", value)` is given, where one call alone makes a buffer of that name."""
    name = held.attr if isinstance(held, ast.Attribute) else ""
    calls = [
        (home, call.args[1])
        for home in files.codes(name)
        for call in home.every(ast.Call)
        if class_name(call) == "register_buffer" and len(call.args) > 1
        if isinstance(call.args[0], ast.Constant) and call.args[0].value == name
    ]
    if len(calls) != 1:
        return None
    home, value = calls[0]
    return (home, value) if isinstance(value, ast.Call) else None


def _values(code: Code, statement: ast.stmt, name: str) -> list[ast.expr]:
    """What the name may be bound to here; `a, b = x, y` taken apart."""
    found: list[ast.expr] = []
    for binding in bindings(code, statement, name):
        value = getattr(binding, "value", None)
        target = binding.targets[0] if isinstance(binding, ast.Assign) else None
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            named = [one for item, one in zip(target.elts, value.elts, strict=True) if ast.unparse(item) == name]
            found += named
        elif isinstance(target, ast.Name) and value is not None:
            found.append(value)
        else:
            return []
    return found


def parameter(files: Files) -> tuple[str, list[Edit]] | None:
    """`nn.Parameter(p.expand(heads, -1))`, `weight.data = p.expand(heads, -1)`, where there is one such parameter: an
    optimizer, or whoever loads it, writes it somewhere else."""
    found: list[tuple[str, list[Edit]]] = []
    for code in {home for name in having("expands") for home in files.codes(name)}:
        made = [call.args[0] for call in code.every(ast.Call) if class_name(call) == "Parameter" and call.args]
        for node in code.every(ast.Assign):
            made += [node.value for to in node.targets if isinstance(to, ast.Attribute) and to.attr == "data"]
        for of in made:
            if isinstance(of, ast.Call) and isinstance(of.func, ast.Attribute) and method_has(of.func.attr, "expands"):
                end = code.span(of)[1]
                found.append((code.path, [Edit(end, end, ".clone()")]))
    return found[0] if len(found) == 1 else None
