"""Copies expanded memory where it is made: `self.gains = gains.expand(n, -1)`, which other code writes."""

from __future__ import annotations

import ast

from outplace.knowledge.traits import having, method_has
from outplace.repair.facts.origins import module_made_at
from outplace.repair.syntax.calls import called_name
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import bindings


def copied(files: Files, code: Code, statement: ast.stmt, held: ast.expr) -> tuple[str, list[Edit]] | None:
    """The file and the edits, for a name or an attribute that a single assignment binds to expanded memory."""
    values = _values(code, statement, held.id) if isinstance(held, ast.Name) else [held]
    made = [
        (code, value)
        if isinstance(value, ast.Call)
        else module_made_at(files, code, value) or _registered(files, value)
        for value in values
    ]
    if len(made) != 1 or made[0] is None:
        return None
    home, call = made[0]
    if not isinstance(call.func, ast.Attribute) or not method_has(call.func.attr, "expands"):
        return None
    end = home.span(call)[1]
    return home.path, [Edit(end, end, ".clone()")]


def _registered(files: Files, held: ast.expr) -> tuple[Code, ast.Call] | None:
    """The value of `self.register_buffer("name", value)`, if only one call registers that name."""
    name = held.attr if isinstance(held, ast.Attribute) else ""
    calls = [
        (home, call.args[1])
        for home in files.codes(name)
        for call in home.every(ast.Call)
        if called_name(call) == "register_buffer" and len(call.args) > 1
        if isinstance(call.args[0], ast.Constant) and call.args[0].value == name
    ]
    if len(calls) != 1:
        return None
    home, value = calls[0]
    return (home, value) if isinstance(value, ast.Call) else None


def _values(code: Code, statement: ast.stmt, name: str) -> list[ast.expr]:
    """The values that the name may have here; `a, b = x, y` is taken apart."""
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
    """`nn.Parameter(p.expand(heads, -1))`, `weight.data = p.expand(heads, -1)`, if there is only one such parameter.

    An optimizer, or code that loads a state, writes it elsewhere.
    """
    found: list[tuple[str, list[Edit]]] = []
    for code in {home for name in having("expands") for home in files.codes(name)}:
        made = [call.args[0] for call in code.every(ast.Call) if called_name(call) == "Parameter" and call.args]
        for node in code.every(ast.Assign):
            made += [node.value for to in node.targets if isinstance(to, ast.Attribute) and to.attr == "data"]
        for of in made:
            if isinstance(of, ast.Call) and isinstance(of.func, ast.Attribute) and method_has(of.func.attr, "expands"):
                end = code.span(of)[1]
                found.append((code.path, [Edit(end, end, ".clone()")]))
    return found[0] if len(found) == 1 else None
