"""What may be run once more: the statements of a forward pass that make a value."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from outplace.repair.code import Code
from outplace.repair.flow import bindings, binds, reads
from outplace.repair.forms.step_order.lines import names_bound

_LONGEST = 4  # statements that a value is made anew with
_RANDOM = ("rand", "sample", "multinomial", "bernoulli", "normal(")


def making(code: Code, statement: ast.stmt, name: str) -> str | None:
    """The assignment that makes a value, alone where it is one of several: `b = g()` of `a, b = f(), g()`."""
    found = list(bindings(code, statement, name))
    made = found[0] if len(found) == 1 else None
    if not isinstance(made, ast.Assign) or not is_forward(code, made):
        return None
    target, value = made.targets[0], made.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        one = next(number for number, item in enumerate(target.elts) if ast.unparse(item) == name)
        return f"{name} = {code.segment(value.elts[one])}"
    return code.segment(made)


def makings(code: Code, statement: ast.stmt, path: str) -> Iterator[list[str]]:
    """The statements that make a value, as text: the last one, then those that it is made from, too."""
    made: list[ast.stmt] = []
    wanted = [path]
    for _ in range(_LONGEST):
        found = {one for name in wanted for one in bindings(code, made[0] if made else statement, name)}
        steps = [one for one in found if isinstance(one, ast.Assign) and is_forward(code, one)]
        if not steps or len({id(code.block(one)) for one in [*steps, *made[:1]]}) != 1:
            return
        steps.sort(key=lambda one: one.lineno)
        made = [*steps, *made]
        yield [code.segment(one) for one in made]
        wanted = [node.id for one in steps for node in ast.walk(one.value) if isinstance(node, ast.Name)]


def is_forward(code: Code, statement: ast.Assign) -> bool:
    """May it be run again? What draws at random must not be drawn again, and what is trained not be made again."""
    text = code.segment(statement)
    calls = [node for node in ast.walk(statement.value) if isinstance(node, ast.Call)]
    if any(_makes_object(code, call) for call in calls) or "requires_grad" in text:
        return False
    trained = [node for node in ast.walk(code.scope(statement)) if isinstance(node, ast.Call) and _optimizes(node)]
    if any(reads(call, name) for call in trained for name in names_bound(statement)):
        return False
    alone = code.begins_line(statement) and "\n" not in text
    return bool(calls) and alone and not any(word in text for word in _RANDOM)


def _makes_object(code: Code, call: ast.Call) -> bool:
    """Is it a class that is called: a module, an optimizer? `D(fake)` is none where `D` is a name that was assigned."""
    name = ast.unparse(call.func)
    return name.split(".")[-1][:1].isupper() and not any(binds(node, name) for node in ast.walk(code.tree))


def _optimizes(call: ast.Call) -> bool:
    return "optim" in ast.unparse(call.func).lower()
