"""`torch.add(a, b, out=c)` becomes `c = torch.add(a, b)`."""

from __future__ import annotations

import ast

from outplace.repair.code import Code
from outplace.repair.edits import Edit


def out_of_place(code: Code, call: ast.Call, statement: ast.stmt) -> list[Edit] | None:
    """The edits; None where the call is neither a statement nor the value of an assignment."""
    keyword = next((item for item in call.keywords if item.arg == "out"), None)
    if keyword is None or not isinstance(keyword.value, ast.Name | ast.Attribute | ast.Subscript):
        return None
    if not isinstance(statement, ast.Expr | ast.Assign) or statement.value is not call:
        return None
    target = code.segment(keyword.value)
    edits = [without_keyword(code, call, keyword)]
    own = isinstance(statement, ast.Assign) and any(
        ast.unparse(t) == ast.unparse(keyword.value) for t in statement.targets
    )
    if not own:
        start = code.span(call)[0]
        edits.append(Edit(start, start, f"{target} = "))
    return edits


def without_keyword(code: Code, call: ast.Call, keyword: ast.keyword) -> Edit:
    """Takes a keyword out of a call, with the comma that belongs to it."""
    end = code.span(keyword.value)[1]
    start = code.text.rindex(keyword.arg or "", 0, code.span(keyword.value)[0])
    before = [code.span(node)[1] for node in call.args] + [
        code.span(k.value)[1] for k in call.keywords if k is not keyword
    ]
    before = [position for position in before if position <= start]
    if before:
        return Edit(max(before), end, "") if "#" not in code.text[max(before) : start] else Edit(start, end, "")
    rest = code.text[end:]
    after = len(rest) - len(rest.lstrip(" ,\n"))
    stop = end + after if "," in rest[:after] else end
    return Edit(start, stop, "")
