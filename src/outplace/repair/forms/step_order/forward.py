"""What may run again: the statements of a forward pass that compute a value."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise

from outplace.knowledge.traits import draws as draws_at_random
from outplace.knowledge.traits import without_graph
from outplace.repair.facts.aliases import span_of
from outplace.repair.syntax.calls import called_names, identifiers
from outplace.repair.syntax.code import Code, Function
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import binds, names_in, reads, reads_any
from outplace.repair.syntax.moves import binds_within, names_bound
from outplace.source.heuristics import is_class_name, makes_optimizer


@dataclass(frozen=True)
class Recomputed:
    """Statements that compute values again, as text, and the values that they detach."""

    lines: list[str]
    detached: list[str]


def recomputed(
    files: Files, code: Code, at: ast.stmt, names: Iterable[str], stale: Collection[str], cut: Collection[str] = ()
) -> Recomputed | None:
    """The statements that compute values again, starting with the first stale one.

    Values in `cut` are reused and detached. None if a value cannot be computed again.
    """
    waiting, wanted = list(names), set(names)
    found: list[ast.Assign] = []
    while waiting:
        name = waiting.pop()
        assignment = last_assignment(code, at, name)
        if assignment is None or contexts(code, assignment) != contexts(code, at):
            return None
        if not may_run_again(files, code, assignment):
            return None
        if assignment not in found:
            found.append(assignment)
        inputs = names_in(_part(assignment, {name})[1])
        if any(_bound_between(code, item, assignment, at, found) for item in inputs):
            return None
        followed = {item for item in inputs if item in stale and item not in cut} - wanted
        wanted |= followed
        waiting += sorted(followed)
    found.sort(key=lambda candidate: candidate.lineno)
    detached = [item for assignment in found for item in cut if reads(assignment.value, item)]
    return Recomputed([_making(code, assignment, wanted, cut) for assignment in found], list(dict.fromkeys(detached)))


def last_assignment(code: Code, at: ast.stmt, name: str) -> ast.Assign | None:
    """The assignment that a name has its value from, if that is certain: a loop is assumed to run, an `if` is not."""
    here: ast.AST | None = at
    while isinstance(here, ast.stmt) and not isinstance(here, Function):
        block = code.block(here)
        for earlier in reversed(block[: block.index(here)]):
            if binds_within(earlier, name):
                return _only_one(earlier, name)
        here = code.parents.get(here)
    return None


def assignments_behind(
    code: Code, at: ast.stmt, names: Iterable[str], within: Collection[str] | None = None
) -> list[ast.Assign]:
    """The assignments that names have their values from, and those of what these are computed from.

    `within`: only the values of these names are followed further.
    """
    waiting, found = list(names), list[ast.Assign]()
    seen = set(waiting)
    while waiting:
        made = last_assignment(code, at, waiting.pop())
        if made is not None and made not in found:
            found.append(made)
            inputs = names_in(made.value) - seen
            seen |= inputs
            waiting += sorted(inputs if within is None else inputs & set(within))
    return found


def _only_one(statement: ast.stmt, name: str) -> ast.Assign | None:
    if isinstance(statement, ast.Assign):
        return statement if binds(statement, name) else None
    if not isinstance(statement, ast.With | ast.For | ast.While) or name in names_bound(statement):
        return None
    inside = [item for item in statement.body if binds_within(item, name)]
    return _only_one(inside[-1], name) if inside else None


def contexts(code: Code, statement: ast.stmt) -> list[str]:
    """The `with` blocks around it: autocast, no_grad."""
    around = [entry for entry in code.above(statement) if isinstance(entry, ast.With | ast.AsyncWith)]
    return [ast.unparse(item) for entry in around for item in entry.items]


def _part(made: ast.Assign, names: Collection[str]) -> tuple[str, ast.expr]:
    """`b`, `g()` of `a, b = f(), g()`; `_, b` of `a, b = f()`, if the other is not needed."""
    target, value = made.targets[0], made.value
    if not isinstance(target, ast.Tuple) or len(made.targets) > 1:
        return " = ".join(map(ast.unparse, made.targets)), value
    items = [ast.unparse(item) for item in target.elts]
    if isinstance(value, ast.Tuple) and len(value.elts) == len(items):
        numbers = [number for number, item in enumerate(items) if item in names]
        if len(numbers) == 1:
            return items[numbers[0]], value.elts[numbers[0]]
        return ", ".join(items), value
    return ", ".join(item if item in names else "_" for item in items), value


def _making(code: Code, made: ast.Assign, names: Collection[str], cut: Collection[str]) -> str:
    target, value = _part(made, names)
    start, text = code.span(value)[0], code.segment(value)
    inside = [node for node in ast.walk(value) if isinstance(node, ast.Name) and node.id in cut]
    ends = sorted(code.span(node)[1] - start for node in inside)
    parts = [text[one:other] for one, other in pairwise([0, *ends, len(text)])]
    return f"{target} = {'.detach()'.join(parts)}"


def _bound_between(code: Code, name: str, made: ast.stmt, at: ast.stmt, but: Collection[ast.stmt]) -> bool:
    """Is a name rebound in between?"""
    inside = {id(node) for item in but for node in ast.walk(item)}
    return any(
        node.id == name and not isinstance(node.ctx, ast.Load) and made.lineno < node.lineno < at.lineno
        for node in ast.walk(code.scope(at))
        if isinstance(node, ast.Name) and id(node) not in inside
    )


def runs(files: Files, code: Code, statement: ast.stmt) -> list[ast.Call]:
    """The calls that may run a network: not of a library, not a method of a computed value, not a class."""
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call) and node.args]
    return [call for call in calls if _may_run(code, call) and not _makes_object(files, code, call)]


def _may_run(code: Code, call: ast.Call) -> bool:
    function, name = call.func, ast.unparse(call.func)
    if isinstance(function, ast.Name) or name.startswith("self."):
        return name not in dir(builtins)
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name | ast.Attribute):
        return False
    return any(method.name == function.attr and code.class_of(method) is not None for method in code.functions)


def uses(code: Code, statement: ast.stmt, name: str) -> list[ast.Name]:
    """Where a statement reads a value with its graph: not `x.detach()`, `x.item()`, `x.shape`."""
    found = [node for node in ast.walk(statement) if isinstance(node, ast.Name) and node.id == name]
    return [
        node
        for node in found
        if isinstance(node.ctx, ast.Load)
        and not (isinstance(above := code.parents.get(node), ast.Attribute) and without_graph(above.attr))
    ]


def may_run_again(files: Files, code: Code, statement: ast.Assign) -> bool:
    """May it run again? It must not draw random numbers or train."""
    text = code.segment(statement)
    calls = [node for node in ast.walk(statement.value) if isinstance(node, ast.Call)]
    if identifiers(statement) & {"requires_grad", "requires_grad_"} or called_names(statement.value) & _trainers(code):
        return False
    if any(_makes_object(files, code, call) for call in calls):
        return False
    trained = [node for node in ast.walk(code.scope(statement)) if isinstance(node, ast.Call) and makes_optimizer(node)]
    if reads_any(trained, names_bound(statement)):
        return False
    alone = code.begins_line(statement) and "\n" not in text
    return bool(calls) and alone and not draws(code, statement)


def _trainers(code: Code) -> set[str]:
    """The functions of the file that call backward or step, directly or not. Running them again trains again."""
    calls = {function.name: called_names(function) for function in code.functions}
    found = {"backward", "step"}
    while more := {name for name, called in calls.items() if called & found and name not in found}:
        found |= more
    return found


def draws(code: Code, statement: ast.stmt) -> bool:
    """Does it draw random numbers?"""
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    names = [ast.unparse(call.func).split(".") for call in calls]
    return any("random" in parts or draws_at_random(parts[-1]) for parts in names)


def _makes_object(files: Files, code: Code, call: ast.Call) -> bool:
    """Does it make a module or an optimizer? The analysis knows; of a call that it has not followed, the name tells."""
    made = files.inquiry.call(span_of(code, call)).makes_module
    if made != "unknown":
        return made == "yes"
    name = ast.unparse(call.func)
    return is_class_name(name) and not any(binds(node, name) for node in ast.walk(code.tree))
