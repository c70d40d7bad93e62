"""`F.relu(x, inplace=True)` and `nn.ReLU(True)`: removes the flag, at the call or where the module is made."""

from __future__ import annotations

import ast

from outplace.knowledge.traits import inplace_position
from outplace.repair.facts.origins import callee_of, class_named, module_made_at
from outplace.repair.forms.out_argument import without_keyword
from outplace.repair.syntax.calls import called_name
from outplace.repair.syntax.code import Code, is_library
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.files import Files

__all__ = ["dropped", "flags_behind"]


def dropped(code: Code, call: ast.Call) -> list[Edit]:
    """The edits that remove the flag from a call; none if it has no flag, or if the flag is False."""
    for keyword in call.keywords:
        if keyword.arg == "inplace" and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value):
            return [without_keyword(code, call, keyword)]
    position = inplace_position(called_name(call))
    if position is not None and len(call.args) > position:
        flag = call.args[position]
        if (
            isinstance(flag, ast.Constant)
            and flag.value is True
            and position == len(call.args) - 1
            and not call.keywords
        ):
            start = code.span(call.args[position - 1])[1] if position else code.span(flag)[0]
            return [Edit(start, code.span(flag)[1], "")]
        if isinstance(flag, ast.Constant) and flag.value is True:
            return [code.replaced(flag, "False")]
    return []


def flags_behind(files: Files, code: Code, call: ast.Call) -> list[tuple[Code, ast.Call]]:
    """The constructor calls with a flag behind a call of a module: `self.act(x)`, also inside `nn.Sequential`."""
    if isinstance(call.func, ast.Attribute) and is_library(call.func.value):
        return []
    if isinstance(call.func, ast.Call):
        return [(code, call.func)] if dropped(code, call.func) else []
    module = module_made_at(files, code, call.func)
    if module is None:
        return []
    home, constructor = module
    inside = [node for node in ast.walk(constructor) if isinstance(node, ast.Call) and dropped(home, node)]
    if inside:
        return [(home, node) for node in inside]
    factory = callee_of(files, home, constructor)
    owner = factory[:2] if factory is not None else class_named(files, called_name(constructor))
    if owner is None:
        return []
    home, body = owner
    return [(home, node) for node in ast.walk(body) if isinstance(node, ast.Call) and dropped(home, node)]
