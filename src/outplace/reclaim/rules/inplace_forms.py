"""The in-place form of an operation: the edit, and the expression that would be overwritten."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from outplace.knowledge.by_hand import CALLED_AS
from outplace.knowledge.names import OPERATORS, SYMBOLS
from outplace.knowledge.traits import inplace_position, method_has
from outplace.repair.syntax.calls import called_name
from outplace.repair.syntax.code import Code, is_library, same
from outplace.repair.syntax.edits import Edit

_PLAIN = ast.Name | ast.Call | ast.Attribute | ast.Subscript


@dataclass(frozen=True)
class Form:
    """One operation, rewritten."""

    edits: tuple[Edit, ...]
    operand: ast.expr
    before: str
    after: str


def spelled(operation: str) -> set[str]:
    """The spellings of an operation in source."""
    return CALLED_AS.get(operation, {operation})


def in_place(code: Code, node: ast.AST | None, operation: str, position: int | None) -> Form | None:
    """The in-place form of an expression. `position` is the operand to overwrite; None: the only tensor."""
    if isinstance(node, ast.Call):
        return _call(code, node, operation) if not position else None
    if isinstance(node, ast.BinOp):
        return _binary(code, node, operation, int(_is_number(node.left)) if position is None else position)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and operation == "neg":
        after = f"{_receiver(code, node.operand)}.neg_()"
        return Form((code.replaced(node, after),), node.operand, code.segment(node), after)
    return None


def flagged(code: Code, call: ast.Call) -> Edit | None:
    """The edit that adds `inplace=True` to a call; None if the call has the flag or starred arguments."""
    name = called_name(call)
    is_starred = any(isinstance(arg, ast.Starred) for arg in call.args) or any(k.arg is None for k in call.keywords)
    position = inplace_position(name)
    if position is None or is_starred or len(call.args) > position:
        return None
    flags = [keyword for keyword in call.keywords if keyword.arg == "inplace"]
    if flags:
        value = flags[0].value
        return code.replaced(value, "True") if isinstance(value, ast.Constant) and value.value is False else None
    last = max((code.span(arg)[1] for arg in (*call.args, *(k.value for k in call.keywords))), default=None)
    if last is None:
        end = code.span(call)[1]
        return Edit(end - 1, end - 1, "inplace=True")
    if not re.fullmatch(r"[\s,]*\)", code.text[last : code.span(call)[1]]):
        return None  # the last argument stands in brackets of its own, or a comment follows
    return Edit(last, last, ", inplace=True")


def _call(code: Code, call: ast.Call, operation: str) -> Form | None:
    name = called_name(call)
    if name not in spelled(operation) or any(isinstance(arg, ast.Starred) for arg in call.args):
        return None
    if isinstance(call.func, ast.Attribute) and not is_library(call.func.value):
        if name == "dropout":
            return None
        return _renamed(code, call, call.func.value)
    if not call.args:
        return None
    home = _home(code, call.func)
    if home == "torch.nn.functional" and (edit := flagged(code, call)) is not None:
        before = code.segment(call)
        start = code.span(call)[0]
        after = before[: edit.start - start] + edit.text + before[edit.end - start :]
        return Form((edit,), call.args[0], before, after)
    if home == "torch" and method_has(f"{name}_", "function_in_place") and isinstance(call.func, ast.Attribute):
        return _renamed(code, call, call.args[0])
    return None


def _renamed(code: Code, call: ast.Call, operand: ast.expr) -> Form:
    end = code.span(call.func)[1]
    start, before = code.span(call)[0], code.segment(call)
    return Form((Edit(end, end, "_"),), operand, before, f"{before[: end - start]}_{before[end - start :]}")


def _home(code: Code, function: ast.expr) -> str | None:
    """The library prefix of a function: `torch.nn.functional`, `torch`."""
    if isinstance(function, ast.Attribute):
        name = ast.unparse(function.value)
        functional = name.split(".")[-1] in ("F", "functional")
        return "torch" if name == "torch" else "torch.nn.functional" if functional else None
    for node in code.tree.body:
        if isinstance(node, ast.ImportFrom) and isinstance(function, ast.Name):
            for item in node.names:
                if (item.asname or item.name) == function.id and item.asname in (None, item.name):
                    return node.module
    return None


def _binary(code: Code, node: ast.BinOp, operation: str, position: int) -> Form | None:
    sign = SYMBOLS[type(node.op)]
    name = OPERATORS[sign]
    if name != operation or not isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
        return None
    operand, other = (node.left, node.right) if position == 0 else (node.right, node.left)
    if position and (name not in ("add", "mul") or not isinstance(other, ast.Name | ast.Constant | ast.Attribute)):
        return None  # not the same when swapped, or not in the same order
    statement = code.parents.get(node)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if isinstance(statement, ast.Assign) and isinstance(target, ast.Name) and same(target, operand):
        after = f"{target.id} {sign}= {code.segment(other)}"
        if "\n" not in code.segment(statement) and _is_whole(code, statement, node):
            return Form((code.replaced(statement, after),), operand, code.segment(statement), after)
    after = f"{_receiver(code, operand)}.{name}_({code.segment(other)})"
    return Form((code.replaced(node, after),), operand, code.segment(node), after)


def _is_number(node: ast.expr) -> bool:
    """Is it certainly a number: `2`, `-1.5`, `math.sqrt(d)`?"""
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Call) and ast.unparse(node.func).startswith("math."))


def _is_whole(code: Code, statement: ast.Assign, node: ast.BinOp) -> bool:
    """Does the statement end with the expression, without brackets around it?"""
    return code.span(statement)[1] == code.span(node)[1]


def _receiver(code: Code, node: ast.expr) -> str:
    text = code.segment(node)
    return text if isinstance(node, _PLAIN) else f"({text})"
