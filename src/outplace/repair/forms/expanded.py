"""Copies expanded memory where a parameter is made of it: `nn.Parameter(gains.expand(n, -1))`, which others write."""

from __future__ import annotations

import ast

from outplace.knowledge.traits import having, method_has
from outplace.repair.syntax.calls import called_name
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.files import Files


def parameter(files: Files) -> tuple[str, list[Edit]] | None:
    """`nn.Parameter(p.expand(heads, -1))`, `weight.data = p.expand(heads, -1)`, if there is only one such parameter.

    An optimizer, or code that loads a state, writes it elsewhere.
    """
    found: list[tuple[str, list[Edit]]] = []
    for code in {home for name in having("expands") for home in files.codes(name)}:
        data = [call.args[0] for call in code.every(ast.Call) if called_name(call) == "Parameter" and call.args]
        for node in code.every(ast.Assign):
            data += [node.value for to in node.targets if isinstance(to, ast.Attribute) and to.attr == "data"]
        for of in data:
            if isinstance(of, ast.Call) and isinstance(of.func, ast.Attribute) and method_has(of.func.attr, "expands"):
                found.append((code.path, code.followed(".clone()", of)))
    return found[0] if len(found) == 1 else None
