"""Statements that only evaluate, or end their block."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from outplace.knowledge.written import written_by
from outplace.source import holders, torch_model
from outplace.source.frames import Stop
from outplace.source.values import NONE

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def _expr(interpreter: Interpreter, node: ast.Expr) -> int:
    value = interpreter.eval(node.value)
    call = node.value
    if isinstance(call, ast.Call) and (written := written_by(call)) is not None:
        torch_model.check_remade(interpreter, value, written, node)
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_"):
        torch_model.check_kept(interpreter, value, call.func.value, node)
        holders.note_method(interpreter, call, call.func.value)
    return Stop.RAN


def _assert(interpreter: Interpreter, node: ast.Assert) -> int:
    interpreter.eval(node.test)
    return Stop.RAN


def _return(interpreter: Interpreter, node: ast.Return) -> int:
    interpreter.frame.returns.append(interpreter.eval(node.value) if node.value is not None else NONE)
    interpreter.frame.return_paths.append(interpreter.tape.path)
    return Stop.RETURNED


def _raise(interpreter: Interpreter, node: ast.Raise) -> int:
    return Stop.RAISED


STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.Expr: _expr, ast.Assert: _assert, ast.Return: _return, ast.Raise: _raise,
    ast.Break: lambda _interpreter, _node: Stop.BROKE, ast.Continue: lambda _interpreter, _node: Stop.CONTINUED,
}  # fmt: skip
