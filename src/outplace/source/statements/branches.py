"""Branches: each arm is run from the same start, and the results are joined."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from outplace.source.decisions import decision
from outplace.source.frames import LEAST_FINAL, Stop, next_branch
from outplace.source.graph import Path
from outplace.source.joins import join_arms
from outplace.source.values import UNKNOWN, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def _if(interpreter: Interpreter, node: ast.If) -> int:
    known, branch, turned = decision(interpreter, node.test)
    if known is not None:
        return interpreter.block(node.body if known else node.orelse)
    arms = [lambda: interpreter.block(node.body), lambda: interpreter.block(node.orelse)]
    return _arms(interpreter, arms[::-1] if turned else arms, branch)


def _match(interpreter: Interpreter, node: Any) -> int:
    interpreter.eval(node.subject)
    cases = [lambda case=case: interpreter.block(case.body) for case in node.cases]
    return _arms(interpreter, [*cases, lambda: Stop.RAN], next_branch())


def _try(interpreter: Interpreter, node: Any) -> int:
    def body() -> int:
        ended = interpreter.block(node.body)
        return interpreter.block(node.orelse) if not ended and node.orelse else ended

    handlers = [_handler(interpreter, handler) for handler in node.handlers]
    ended = _arms(interpreter, [body, *handlers], next_branch()) if handlers else body()
    finally_ended = interpreter.block(node.finalbody) if node.finalbody else Stop.RAN
    return finally_ended or ended


def _handler(interpreter: Interpreter, handler: ast.ExceptHandler) -> Callable[[], int]:
    def run() -> int:
        if handler.name:
            interpreter.frame.scope.set(handler.name, UNKNOWN)
        return interpreter.block(handler.body)

    return run


def _arms(interpreter: Interpreter, arms: list[Callable[[], int]], branch: int) -> int:
    """Runs each arm from the same beginning, then joins what they left behind."""
    outer_path, outer_changes = interpreter.tape.path, interpreter._changes
    bound = [scope.names for scope in interpreter.frame.scopes()]
    before = list(map(dict, bound))
    ends: list[tuple[int, int, list[dict[str, Value]], dict[Any, tuple[dict[str, Value], str, Value]]]] = []
    for number, arm in enumerate(arms):
        if number:
            _reset(bound, before)
        interpreter.tape.path, interpreter._changes = (*outer_path, (branch, number)), []
        ended = arm()
        changed = {
            (id(holder), key): (holder, key, holder[key]) for holder, key, _ in interpreter._changes if key in holder
        }
        for holder, key, old in reversed(interpreter._changes):
            if old is None:
                holder.pop(key, None)
            else:
                holder[key] = old
        ends.append((number, ended, list(map(dict, bound)), changed))
    interpreter.tape.path, interpreter._changes = outer_path, outer_changes
    going_on = [end for end in ends if end[1] == Stop.RAN]
    joined = going_on or ends
    paths: list[Path] = [((branch, number),) for number, _, _, _ in joined]
    for place, names in enumerate(bound):
        _join_names(names, [ended[place] for _, _, ended, _ in joined], paths)
    _join_attributes(interpreter, [changed for _, _, _, changed in joined], paths)
    if len(going_on) == 1 and len(ends) > 1:
        interpreter.tape.path = (*outer_path, (branch, going_on[0][0]))  # what follows runs only after this arm
    return Stop.RAN if going_on else min((end[1] for end in ends), key=LEAST_FINAL.index)


def _reset(bound: list[dict[str, Value]], before: list[dict[str, Value]]) -> None:
    """The names of several scopes, as they were."""
    for names, old in zip(bound, before, strict=True):
        names.clear()
        names.update(old)


def _join_names(names: dict[str, Value], ends: list[dict[str, Value]], paths: list[Path]) -> None:
    names.clear()
    names.update(ends[0])
    if len(ends) == 1:
        return
    for name in {name: None for end in ends[1:] for name, value in end.items() if names.get(name) is not value}:
        bound = [(end[name], path) for end, path in zip(ends, paths, strict=True) if name in end]
        names[name] = join_arms([value for value, _ in bound], [path for _, path in bound])


def _join_attributes(
    interpreter: Interpreter, ends: list[dict[Any, tuple[dict[str, Value], str, Value]]], paths: list[Path]
) -> None:
    for key in dict.fromkeys(key for end in ends for key in end):
        holder, name, _ = next(end[key] for end in ends if key in end)
        values = [end[key][2] if key in end else holder.get(name) for end in ends]
        bound = [(value, path) for value, path in zip(values, paths, strict=True) if value is not None]
        interpreter.set_name(holder, name, join_arms([value for value, _ in bound], [path for _, path in bound]))


STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.If: _if, ast.Match: _match, ast.Try: _try,
}  # fmt: skip
if hasattr(ast, "TryStar"):
    STATEMENTS[ast.TryStar] = _try
