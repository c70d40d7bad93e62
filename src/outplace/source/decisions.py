"""Which arm of a branch is taken. Two tests of the same unknown value have the same outcome."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from outplace.source.frames import next_branch
from outplace.source.values import Choice, Tensor, Unknown, Value, is_none

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def decision(interpreter: Interpreter, test: ast.expr) -> tuple[bool | None, int, bool]:
    """Is it true? Where that is not known: the number of its branch, and whether arm 0 is that of the false."""
    asked, question, turned = _asked(test)
    if not isinstance(asked, (ast.Name, ast.Attribute)):
        return interpreter.truth(interpreter.eval(test)), next_branch(), False
    value = interpreter.eval(asked)
    answer = _answer(interpreter, value, question)
    if answer is not None:
        return answer is not turned, 0, False
    number = interpreter.branch_number(value, question)
    if number is None:
        number, against = _branch_between(interpreter, value, question)
        turned = turned is not against
    for branch, arm in interpreter.tape.path:
        if branch == number:
            return (arm == 0) is not turned, 0, False
    return None, number, turned


def _asked(test: ast.expr) -> tuple[ast.expr, str, bool]:
    """The expression that a test is about, what is asked of it, and whether the test is its opposite."""
    turned = False
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, turned = test.operand, not turned
    if (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], (ast.Is, ast.IsNot))
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value is None
        and len(test.ops) == 1
    ):
        return test.left, "is none", turned is not isinstance(test.ops[0], ast.IsNot)
    return test, "is true", turned


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
    """The branch that left the values of each answer behind, and whether its arm 0 left those of a no."""
    if isinstance(value, Choice):
        answers = [_answer(interpreter, option, question) for option in value.options]
        for branch, _ in value.paths[0]:
            arms = [dict(path).get(branch) for path in value.paths]
            if None not in answers and answers == [arm == 0 for arm in arms] and set(arms) == {0, 1}:
                return branch, False
            if None not in answers and answers == [arm == 1 for arm in arms] and set(arms) == {0, 1}:
                return branch, True
    return next_branch(), False
