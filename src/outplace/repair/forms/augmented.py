"""`x += v` becomes `x = x + v`, for every augmented assignment."""

from __future__ import annotations

import ast

from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import Edit

SYMBOLS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip

_STRENGTH = {
    "|": 1, "^": 2, "&": 3, "<<": 4, ">>": 4, "+": 5, "-": 5, "*": 6, "/": 6, "//": 6, "%": 6, "@": 6, "**": 8,
}  # fmt: skip
_UNARY, _ATOM, _WEAKEST = 7, 9, 0


def strength(node: ast.expr) -> int:
    """The precedence of an expression. A weaker one than its surroundings needs parentheses."""
    if isinstance(node, ast.BinOp):
        return _STRENGTH[SYMBOLS[type(node.op)]]
    if isinstance(node, ast.UnaryOp):
        return _WEAKEST if isinstance(node.op, ast.Not) else _UNARY
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.Constant | ast.List | ast.Dict):
        return _ATOM
    return _WEAKEST


def out_of_place(code: Code, statement: ast.AugAssign) -> list[Edit]:
    """The edits: the operator changes, spaced as its author does it. The value gets parentheses if needed."""
    symbol = SYMBOLS[type(statement.op)]
    target = code.segment(statement.target)
    after_target, (start, end) = code.span(statement.target)[1], code.span(statement.value)
    operator = code.text.index(symbol + "=", after_target)
    behind = operator + len(symbol) + 1
    before, after = (" " * text.isspace() for text in (code.text[operator - 1], code.text[behind]))
    edits = [Edit(operator, behind, f"={before}{target}{after}{symbol}")]
    if "(" not in _without_comments(code.text[operator:start]):
        over_lines = "\n" in code.text[start:end] and strength(statement.value) < _ATOM
        signed_power = symbol == "**" and strength(statement.value) == _UNARY
        if (strength(statement.value) <= _STRENGTH[symbol] or over_lines) and not signed_power:
            edits += code.surrounded(statement.value, "(", ")")
    return edits


def _without_comments(text: str) -> str:
    return "\n".join(line.split("#")[0] for line in text.split("\n"))
