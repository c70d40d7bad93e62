"""`F.relu(x, inplace=True)` and `nn.ReLU(True)`: removes the flag, at the call or where the module is made."""

from __future__ import annotations

import ast

from outplace.knowledge.traits import inplace_position
from outplace.repair.facts.callees import constructors_behind
from outplace.repair.forms.out_argument import without_keyword
from outplace.repair.syntax.calls import called_name
from outplace.repair.syntax.code import Code
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
    """The constructor calls with a flag that made what a call runs: `self.act(x)`, also inside `nn.Sequential`."""
    return [(home, made) for home, made in constructors_behind(files, code, call) if dropped(home, made)]
