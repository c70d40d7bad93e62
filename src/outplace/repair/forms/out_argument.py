"""`torch.add(a, b, out=c)` becomes `c = torch.add(a, b)`, or binds a new name if `c` is a result buffer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from outplace.knowledge.traits import reads_nothing
from outplace.repair.syntax.calls import only_call
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.files import Files


def out_of_place(code: Code, call: ast.Call, statement: ast.stmt) -> list[Edit] | None:
    """The edits; None if the call is neither a statement nor the value of an assignment."""
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


def into_a_name(files: Files, code: Code, call: ast.Call, statement: ast.stmt) -> tuple[str, list[Edit]] | None:
    """Binds the result to a name instead: `torch.add(a, b, out=self.scratch)`. Returns the edits and the name.

    Only if the following statements of the function are the only ones that read `self.scratch`.
    """
    keyword = next((item for item in call.keywords if item.arg == "out"), None)
    function = code.function(statement)
    if keyword is None or not isinstance(keyword.value, ast.Attribute) or not isinstance(function, ast.FunctionDef):
        return None
    name, path = keyword.value.attr, ast.unparse(keyword.value)
    if only_call(statement) is not call or name in code.names(function) or code.loops(statement):
        return None
    later = [node for node in ast.walk(function) if _reads(node, path) and node.lineno > (statement.end_lineno or 0)]
    known = {*later, keyword.value}
    if not later or any(node not in known for node in _readers(files, path, name)):
        return None
    start = code.span(call)[0]
    edits = [without_keyword(code, call, keyword), Edit(start, start, f"{name} = ")]
    return name, edits + [code.replaced(node, name) for node in later]


def _readers(files: Files, path: str, name: str) -> Iterator[ast.Attribute]:
    """Where the project reads the contents of an attribute of this name."""
    for home in files.codes(name):
        for node in home.every(ast.Attribute):
            if _reads(node, path, name) and not _asks_for_its_size(home, node):
                yield node


def _reads(node: ast.AST, path: str, name: str = "") -> TypeGuard[ast.Attribute]:
    """Is it this attribute, or an attribute of that name on any object?"""
    loads = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    return loads and (node.attr == name or ast.unparse(node) == path)  # type: ignore[attr-defined]


def _asks_for_its_size(code: Code, node: ast.Attribute) -> bool:
    """`len(self.scratch)`, `self.scratch.shape`: the answer does not depend on the contents."""
    parent = code.parents.get(node)
    if isinstance(parent, ast.Attribute):
        return reads_nothing(parent.attr) and not parent.attr.endswith("_")
    return isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "len"


def without_keyword(code: Code, call: ast.Call, keyword: ast.keyword) -> Edit:
    """Removes a keyword from a call, with its comma."""
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
