"""A forward hook that writes its output: returns a new output, which replaces the old one."""

from __future__ import annotations

import ast

from outplace.repair.facts.location import Place
from outplace.repair.forms import silent
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import Edit

_REGISTERS = "register_forward_hook"


def returned_output(place: Place) -> list[Edit] | None:
    """The edits; None if the write is not in such a hook."""
    code, function = place.code, place.code.function(place.statement)
    if not isinstance(function, ast.FunctionDef) or not _hooked(code, _given_as(code, function)):
        return None
    names = [arg.arg for arg in function.args.args if arg.arg not in ("self", "cls")]
    if len(names) < 3 or place.path != names[2]:
        return None
    kept = _kept_before(function, place.statement, place.path)
    if place.whole and not kept:
        return silent.returned_gradient(code, place.node, place.statement)
    outermost = [place.statement, *code.loops(place.statement)][-1]
    copy = code.before(function.body[0] if kept else outermost, f"{place.path} = {place.path}.clone()")
    if copy is None or any(isinstance(node, ast.Return) for node in ast.walk(function)):
        return None
    end = code.line_end(function.body[-1].end_lineno or 1)
    return [copy, Edit(end, end, f"\n{code.indent(function.body[0])}return {place.path}")]


def _kept_before(function: ast.FunctionDef, statement: ast.stmt, name: str) -> bool:
    """Does the hook store its output somewhere before it writes it? Then the stored output must see the write, too."""
    for node in (node for item in function.body if item.lineno < statement.lineno for node in ast.walk(item)):
        values = [node.value] if isinstance(node, ast.Assign) else node.args if isinstance(node, ast.Call) else []
        if any(isinstance(value, ast.Name) and value.id == name for value in values):
            return True
    return False


def _given_as(code: Code, function: ast.FunctionDef) -> set[str]:
    """The name of the hook, of the function that makes and returns it, or of the object that is called."""
    owner = code.class_of(function)
    if owner is not None and function.name == "__call__":
        objects = [
            target.id
            for node in code.every(ast.Assign)
            if isinstance(node.value, ast.Call) and _name(node.value.func) == owner.name
            for target in node.targets
            if isinstance(target, ast.Name)
        ]
        return {f"{owner.name}()", *objects}
    maker = code.function(function)
    if isinstance(maker, ast.FunctionDef):
        returned = [
            node.value for node in ast.walk(maker) if isinstance(node, ast.Return) and code.function(node) is maker
        ]
        if [ast.unparse(value) for value in returned if value is not None] == [function.name]:
            return {f"{maker.name}()"}
    return {function.name}


def _hooked(code: Code, names: set[str]) -> bool:
    """Is it passed to `register_forward_hook`, and never called by other code?"""
    if _REGISTERS not in code.text:
        return False
    calls = code.every(ast.Call)
    to_hooks = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == _REGISTERS]
    is_hooked = any(call.args and _name(call.args[0]) in names for call in to_hooks)
    return is_hooked and not any(_name(call.func) in names for call in calls)


def _name(node: ast.expr) -> str:
    """`hook` of `self.hook`; `make()` of `make(3)`."""
    called = isinstance(node, ast.Call)
    return ast.unparse(node.func if isinstance(node, ast.Call) else node).split(".")[-1] + ("()" if called else "")
