"""`with`: grad modes, context managers of the project, generators that yield to the block."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from outplace.source import records
from outplace.source.calls import run_around
from outplace.source.values import NONE, Context, Function, GradMode, Instance, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def _with(interpreter: Interpreter, node: ast.With | ast.AsyncWith) -> int:
    return _within(interpreter, node, node.items)


def _within(interpreter: Interpreter, node: ast.With | ast.AsyncWith, items: list[ast.withitem]) -> int:
    """The block, inside the first of these context managers, inside the others."""
    if not items:
        return interpreter.block(node.body)
    item, mode = items[0], interpreter.grad
    manager = interpreter.eval(item.context_expr)
    if isinstance(manager, Context):
        return _around(interpreter, manager, node, items)
    if isinstance(manager, GradMode):
        interpreter.grad = manager.mode
    entered: Value = manager
    if isinstance(manager, Instance) and isinstance(enter := manager.cls.find("__enter__"), Function):
        entered = interpreter.call_function(enter, [manager], {}, node)
    if item.optional_vars is not None:
        interpreter.bind(item.optional_vars, entered, node)
    ended = _within(interpreter, node, items[1:])
    interpreter.grad = mode
    for callback in records.callbacks(manager):
        interpreter.call(callback.items[0], callback.items[1:], {}, node)
    if isinstance(manager, Instance) and isinstance(leave := manager.cls.find("__exit__"), Function):
        interpreter.call_function(leave, [manager, NONE, NONE, NONE], {}, node)
    return ended


def _around(
    interpreter: Interpreter, manager: Context, node: ast.With | ast.AsyncWith, items: list[ast.withitem]
) -> int:
    """A generator is run, and the block at the moment it yields, in the frame that the statement stands in."""
    ends: list[int] = []
    own = list(interpreter.frames)

    def block(value: Value) -> None:
        kept, interpreter.frames = interpreter.frames, own
        try:
            if items[0].optional_vars is not None:
                interpreter.bind(items[0].optional_vars, value, node)
            ends.append(_within(interpreter, node, items[1:]))
        finally:
            interpreter.frames = kept

    run_around(interpreter, manager.function, manager.args, manager.keywords, block)
    return ends[0] if ends else _within(interpreter, node, items[1:])


STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.With: _with, ast.AsyncWith: _with,
}  # fmt: skip
