"""Decides which arm of a branch is taken. Two tests of the same unknown value have the same outcome."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from outplace.source.frames import next_branch
from outplace.source.values import Choice, Tensor, Unknown, Value, is_none

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def decision(interpreter: Interpreter, test: ast.expr) -> tuple[bool | None, int, bool]:
    """Returns whether a test is true; if not known: None, its branch, and whether arm 0 is the false arm."""
    subject, question, negated = _question(test)
    if not isinstance(subject, (ast.Name, ast.Attribute)):
        value = interpreter.eval(test)
        if not isinstance(value, Choice):
            return interpreter.truth(value), next_branch(), False
        question, negated = "is true", False
    else:
        value = interpreter.eval(subject)
    answer = _answer(interpreter, value, question)
    if answer is not None:
        return answer is not negated, 0, False
    number = interpreter.branch_number(value, question)
    if number is None:
        number, reversed_arms = _branch_between(interpreter, value, question)
        negated = negated is not reversed_arms
    for branch, arm in interpreter.tape.path:
        if branch == number:
            return (arm == 0) is not negated, 0, False
    return None, number, negated


def _question(test: ast.expr) -> tuple[ast.expr, str, bool]:
    """Returns the tested expression, the question about it, and whether the test negates the question."""
    negated = False
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, negated = test.operand, not negated
    if (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], (ast.Is, ast.IsNot))
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value is None
        and len(test.ops) == 1
    ):
        return test.left, "is none", negated is not isinstance(test.ops[0], ast.IsNot)
    return test, "is true", negated


def _answer(interpreter: Interpreter, value: Value, question: str) -> bool | None:
    if question == "is true":
        return interpreter.truth(value)
    if isinstance(value, Choice):
        answers = {_answer(interpreter, option, question) for option in value.options}
        return answers.pop() if len(answers) == 1 else None
    if isinstance(value, Unknown) or (isinstance(value, Tensor) and not value.known):
        return None
    return value.is_none if isinstance(value, Tensor) else is_none(value)


def _branch_between(interpreter: Interpreter, value: Value, question: str) -> tuple[int, bool]:
    """Returns a branch whose arms separate the answers, and whether its arm 0 belongs to the answer no."""
    if isinstance(value, Choice):
        answers = [_answer(interpreter, option, question) for option in value.options]
        for branch, _ in value.paths[0]:
            arms = [dict(path).get(branch) for path in value.paths]
            if None not in answers and answers == [arm == 0 for arm in arms] and set(arms) == {0, 1}:
                return branch, False
            if None not in answers and answers == [arm == 1 for arm in arms] and set(arms) == {0, 1}:
                return branch, True
    return next_branch(), False
