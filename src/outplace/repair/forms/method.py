"""`x.add_(v)` becomes `x = x.add(v)`: also chained, inside an expression, and if `add` is not the twin's name."""

from __future__ import annotations

import ast

from outplace.knowledge.twins import twin_of
from outplace.repair.facts.location import start_of_chain
from outplace.repair.syntax.code import Code, is_custom_operator, is_library
from outplace.repair.syntax.edits import Edit
from outplace.repair.syntax.flow import read_later


def chain_of(code: Code, call: ast.Call) -> ast.Call:
    """The whole chain of writing methods that contains a call: `x.mul_(2).add_(1)` for either of the two."""
    while True:
        above = code.parents.get(call)
        call_above = code.parents.get(above) if isinstance(above, ast.Attribute) else None
        if not (isinstance(above, ast.Attribute) and isinstance(call_above, ast.Call) and call_above.func is above):
            return call
        if not above.attr.endswith("_") or above.attr.endswith("__"):
            return call
        call = call_above


def new_value(code: Code, call: ast.Call) -> tuple[ast.expr, list[Edit]] | None:
    """The target of a chain, and the edits that make the chain an expression for the new value."""
    if not isinstance(call.func, ast.Attribute):
        return None
    if is_library(call.func.value):
        return _function(code, call)
    target = start_of_chain(call)
    links: list[ast.Call] = []
    node: ast.expr = call
    while isinstance(node, ast.Call) and node is not target:
        links.append(node)
        node = node.func.value  # type: ignore[attr-defined]
    edits: list[Edit] = []
    for link in links:
        assert isinstance(link.func, ast.Attribute)
        twin = twin_of(link.func.attr)
        if twin.template is None:
            return None
        if twin.equivalent and twin.template.startswith("{t}."):
            end = code.span(link.func)[1]
            edits.append(Edit(end - 1, end, ""))
        elif len(links) == 1 and not link.keywords:
            arguments = ", ".join(code.segment(argument) for argument in link.args)
            text = twin.expression(code.segment(target), _as_operand(link, arguments))
            if text is None:
                return None
            edits.append(code.replaced(link, text))
        else:
            return None
    return target, edits


def _as_operand(link: ast.Call, text: str) -> str:
    """`copy_(a + b)` needs parentheses before a method can be called on its argument."""
    assert isinstance(link.func, ast.Attribute)
    if (
        link.func.attr == "copy_"
        and link.args
        and not isinstance(link.args[0], ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    ):
        return f"({text})"
    return text


def _function(code: Code, call: ast.Call) -> tuple[ast.expr, list[Edit]] | None:
    """`torch.relu_(x)`, `F.relu_(x)`: the function without its underscore."""
    assert isinstance(call.func, ast.Attribute)
    if not call.args or not call.func.attr.endswith("_") or is_custom_operator(call.func):
        return None
    if ast.unparse(call.func.value).split(".")[-1] == "init":
        return None
    end = code.span(call.func)[1]
    return call.args[0], [Edit(end - 1, end, "")]


def out_of_place(code: Code, call: ast.Call, statement: ast.stmt) -> list[Edit] | None:
    """The edits; None if the target cannot be rebound where the call is."""
    whole = chain_of(code, call)
    result = new_value(code, whole)
    if result is None:
        return None
    target, edits = result
    if not isinstance(target, ast.Name | ast.Attribute | ast.Subscript):
        return edits  # the written tensor has no name: only the expression's value counts
    text = code.segment(target)
    if isinstance(statement, ast.Expr) and statement.value is whole:
        start = code.span(statement)[0]
        return [Edit(start, start, f"{text} = "), *edits]
    if isinstance(statement, ast.Assign) and statement.value is whole:
        if any(ast.unparse(item) == ast.unparse(target) for item in statement.targets):
            return edits
        if isinstance(target, ast.Name) and not read_later(code, statement, target.id):
            return edits
        start = code.span(whole)[0]
        return [Edit(start, start, f"{text} = "), *edits]
    name = target.value if isinstance(target, ast.Subscript) else target
    if isinstance(name, ast.Name) and not read_later(code, statement, name.id) and _once(statement, name.id):
        return edits
    return None


def _once(statement: ast.stmt, name: str) -> bool:
    """Is it read only once? (It may also be bound.)"""
    names = [node for node in ast.walk(statement) if isinstance(node, ast.Name) and node.id == name]
    return sum(isinstance(node.ctx, ast.Load) for node in names) == 1
