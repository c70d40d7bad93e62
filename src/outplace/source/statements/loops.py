"""Loops: run a few times, so that an iteration meets what the one before has left."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from outplace.knowledge.syntax_trees import walk
from outplace.source import python_model
from outplace.source.calls import run_around
from outplace.source.frames import ROUNDS, Stop
from outplace.source.values import Context, Function, Instance, Items, Plain, Tensor, Unknown, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def _for(interpreter: Interpreter, node: ast.For) -> int:
    interpreter.lazy = node.iter
    iterable = interpreter.eval(node.iter)
    interpreter.lazy = None
    if isinstance(iterable, Instance) and isinstance(own := iterable.cls.find("__iter__"), Function):
        interpreter.lazy = node
        result = interpreter.call_function(own, [iterable], {}, node)
        iterable, interpreter.lazy = result, None
    if isinstance(iterable, Context):
        return _for_each_yield(interpreter, iterable, node)
    most = _MOST_SHORT if _may_be_long(iterable) and _is_short(node) else _MOST
    rounds = python_model.iterate(interpreter, iterable, node, most, least=_rounds(interpreter))
    if isinstance(iterable, Items) and iterable.rest is not None and _tests_its_number(node, iterable.rest):
        rounds += [python_model.another(iterable.rest) for _ in range(_LATER)]
    interpreter._loops += 1
    ended = _run_rounds(interpreter, node, rounds)
    interpreter._loops -= 1
    return ended if ended or not node.orelse else interpreter.block(node.orelse)


_LATER = 2
"""If a loop tests its counter (`if i % 10 == 0`): the number of further iterations, with an unknown counter."""


def _tests_its_number(node: ast.For, later: Value) -> bool:
    """Does a test inside the loop read a number that the loop counts, and so have another answer in a later round?"""
    numbers = set(_numbers(node.target, later))
    inside = [part for statement in node.body for part in walk(statement)] if numbers else []
    tests = [part.test for part in inside if isinstance(part, ast.If | ast.IfExp | ast.While)]
    return any(isinstance(part, ast.Name) and part.id in numbers for test in tests for part in walk(test))


def _numbers(target: ast.expr, item: Value) -> Iterator[str]:
    """The names that get a number, if this is an item."""
    if isinstance(target, ast.Name) and isinstance(item, Plain):
        yield target.id
    elif isinstance(target, ast.Tuple) and isinstance(item, Items):
        for part, inner in zip(target.elts, item.items, strict=False):
            yield from _numbers(part, inner)


_MOST, _MOST_SHORT = 8, 100
"""Through how many items a loop is followed, and through how many where it calls nothing that takes time."""
_QUICK = {"isinstance", "hasattr", "getattr", "setattr", "type", "len"}


def _may_be_long(iterable: Value) -> bool:
    """May it have more items than a loop is followed through?"""
    if isinstance(iterable, Items):
        return len(iterable.items) > _MOST
    return not isinstance(iterable, (Unknown, Plain, Tensor))


def _is_short(node: ast.For) -> bool:
    """`for m in net.modules(): if isinstance(m, Quantiser): m.enabled = True`."""
    inside = [part for statement in node.body for part in walk(statement)]
    calls = [part.func for part in inside if isinstance(part, ast.Call)]
    quick = all(isinstance(function, ast.Name) and function.id in _QUICK for function in calls)
    return quick and not any(isinstance(part, ast.For | ast.While) for part in inside)


def _for_each_yield(interpreter: Interpreter, generator: Context, node: ast.For) -> int:
    """What the body writes, the generator finds written when it goes on."""
    ends: list[int] = []
    own, mode = list(interpreter.frames), interpreter.grad

    def body(value: Value) -> None:
        if Stop.BROKE in ends or Stop.RETURNED in ends:
            return
        kept, interpreter.frames = interpreter.frames, own
        path, inside = interpreter.tape.path, interpreter.grad
        if generator.function.grad is not None:  # a decorator's mode is for the generator, that of a `with` for all
            interpreter.grad = mode
        try:
            interpreter.bind(node.target, value, node)
            ends.append(interpreter.block(node.body))
        finally:
            interpreter.frames, interpreter.tape.path, interpreter.grad = kept, path, inside

    run_around(interpreter, generator.function, generator.args, generator.keywords, body)
    return Stop.RETURNED if Stop.RETURNED in ends else Stop.RAN


def _run_rounds(interpreter: Interpreter, node: ast.For, rounds: list[Value]) -> int:
    path = interpreter.tape.path
    for item in rounds:
        interpreter.bind(node.target, item, node)
        ended = interpreter.block(node.body)
        interpreter.tape.path = path  # an arm that went on with the next round decides nothing about that round
        if ended in (Stop.RETURNED, Stop.RAISED):
            return ended
        if ended == Stop.BROKE:
            break
    return Stop.RAN


def _while(interpreter: Interpreter, node: ast.While) -> int:
    path = interpreter.tape.path
    for _ in range(_rounds(interpreter)):
        if interpreter.truth(interpreter.eval(node.test)) is False:
            break
        ended = interpreter.block(node.body)
        interpreter.tape.path = path
        if ended in (Stop.RETURNED, Stop.RAISED):
            return ended
        if ended == Stop.BROKE:
            break
    return Stop.RAN


def _rounds(interpreter: Interpreter) -> int:
    return ROUNDS if interpreter._loops == 0 else ROUNDS - 1


STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.For: _for, ast.AsyncFor: _for, ast.While: _while,
}  # fmt: skip
