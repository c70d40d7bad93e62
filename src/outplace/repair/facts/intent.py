"""The intention of a write to a leaf: an update of the leaf itself, or a step of the computation."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Literal

from outplace.knowledge.traits import without_graph
from outplace.repair.facts.aliases import calls_of
from outplace.repair.facts.location import Place
from outplace.repair.facts.origins import argument_of, is_writing_name, module_made_at
from outplace.repair.syntax.calls import called_name, method_call
from outplace.repair.syntax.code import is_library
from outplace.repair.syntax.flow import (
    bindings,
    binds,
    own_parts,
    reads,
    used_later,
)
from outplace.source.heuristics import is_gradient_name, is_parameter_name, is_update_name, makes_optimizer

Intent = Literal["update", "value", "unknown"]

_DEEPEST = 6


def intent_of(place: Place) -> Intent:
    """Decides by the written value, where it comes from, and how the tensor is used afterwards."""
    values = _written(place.node)
    if any(_mentions_gradient(place, value) for value in values) or _ends_a_round(place):
        return "update"
    if isinstance(place.holder, ast.Subscript) or any(in_graph(place, value, place.statement) for value in values):
        return "value"
    if place.path is None:
        return "unknown" if _may_be_a_step(place, values) else "update"
    return _intent_by_name(place, place.path, values)


def _intent_by_name(place: Place, path: str, values: list[ast.expr]) -> Intent:
    """Decides by what the name is, and how it is used."""
    if "." in path or _trained(place, path) or _is_loop_variable(place, path):
        return "update"
    name = getattr(place.code.function(place.statement), "name", "")
    if _computed_with_by_a_caller(place):
        return "value"
    if is_update_name(name) and not _handed_on(place, path):
        return "update"
    if name in ("forward", "__call__") and isinstance(place.statement, ast.Return):
        return "value"  # the result of the module counts
    if not binds(place.statement, path) and not used_later(place.code, place.statement, path):
        return "unknown" if _is_read_here(place) or _may_be_a_step(place, values) else "update"
    return "unknown" if name == "__init__" else "value"


def _is_read_here(place: Place) -> bool:
    """Does the same function read it later, by another name or from a list?"""
    return any(read.where == "here" for read in place.facts.reads)


def _is_loop_variable(place: Place, path: str) -> bool:
    found = bindings(place.code, place.statement, path)
    return any(isinstance(binding, ast.For | ast.AsyncFor) for binding in found)


def _computed_with_by_a_caller(place: Place) -> bool:
    """Does a caller go on with a view of the leaf, which the write changed?"""
    views = [read for read in place.facts.reads if read.view and not read.of_leaf]
    return any(read.where == "caller" and read.sure for read in views)


def _ends_a_round(place: Place) -> bool:
    """`target.copy_(w)` after the backward of a loop, and not read until the next iteration: a graph has just ended."""
    loops = place.code.loops(place.statement)
    if not loops or place.path is None:
        return False
    inside = [node for node in ast.walk(loops[0]) if isinstance(node, ast.stmt) and node is not loops[0]]
    below = [node for node in inside if node.lineno > place.statement.lineno]
    before = [node for node in inside if node.lineno < place.statement.lineno]
    return any(map(_goes_backward, before)) and not any(reads(node, place.path) for node in below)


def _may_be_a_step(place: Place, values: list[ast.expr]) -> bool:
    """Does only its position suggest an update? The value depends on a leaf, or one graph uses both values of the leaf.

    In the latter case an update would give the leaf the gradient of neither.
    """
    is_in_graph = any(in_graph(place, value, place.statement, leaves=True) for value in values)
    return is_in_graph or place.facts.both_values


def _goes_backward(statement: ast.stmt) -> bool:
    parts = (node for part in own_parts(statement) for node in ast.walk(part))
    return any(isinstance(node, ast.Call) and called_name(node) in ("backward", "grad", "step") for node in parts)


def is_parameter(place: Place, name: str) -> bool:
    """Is the name a parameter of some module, by its origin or because `nn.init` gets it?"""
    calls = (node for node in ast.walk(place.code.scope(place.statement)) if isinstance(node, ast.Call))
    if any(_initializes(call, name) for call in calls):
        return True
    found = list(bindings(place.code, place.statement, name))
    return bool(found) and all(_binds_a_parameter(place, binding) for binding in found)


def _initializes(call: ast.Call, name: str) -> bool:
    """`nn.init.zeros_(name)`."""
    method = method_call(call)
    if method is None or not is_writing_name(method.name) or ast.unparse(method.receiver).split(".")[-1] != "init":
        return False
    return bool(call.args) and ast.unparse(call.args[0]) == name


def _binds_a_parameter(place: Place, binding: ast.AST | None) -> bool:
    if isinstance(binding, ast.For | ast.AsyncFor):
        return ast.unparse(binding.iter).endswith((".parameters()", ".named_parameters()"))
    value = getattr(binding, "value", None)
    if not isinstance(value, ast.Attribute):
        return False
    module = module_made_at(place.files, place.code, value)
    return is_parameter_name(value.attr) or (module is not None and called_name(module[1]) == "Parameter")


def _handed_on(place: Place, name: str) -> bool:
    """`def set_velocity(self, v): v[2] = 0; self.v = v`: the written value is stored for later computation."""
    function = place.code.function(place.statement)
    later = [node for node in ast.walk(function) if isinstance(node, ast.Assign)] if function is not None else []
    return any(
        ast.unparse(node.value) == name and any(isinstance(target, ast.Attribute) for target in node.targets)
        for node in later
        if node.lineno > place.statement.lineno
    )


def _written(node: ast.expr | ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.Expr):
        node = node.value
    if isinstance(node, ast.AugAssign | ast.Assign):
        return [node.value]
    if isinstance(node, ast.Call):
        return [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg != "out")]
    return []


def _mentions_gradient(place: Place, value: ast.expr) -> bool:
    for node in ast.walk(value):
        if isinstance(node, ast.Attribute) and node.attr == "grad" and not is_library(node.value):
            return True
        if isinstance(node, ast.Name):
            for binding in bindings(place.code, place.statement, node.id):
                source = (
                    binding.iter if isinstance(binding, ast.For | ast.AsyncFor) else getattr(binding, "value", None)
                )
                if isinstance(source, ast.AST) and _is_gradient(place, source):
                    return True
    return False


def _is_gradient(place: Place, source: ast.AST) -> bool:
    for node in ast.walk(source):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("autograd.grad"):
            return not any(k.arg == "create_graph" and ast.unparse(k.value) == "True" for k in node.keywords)
        if isinstance(node, ast.Attribute) and node.attr == "grad":
            return True
        if isinstance(node, ast.Name) and is_gradient_name(node.id):
            return True
    return False


def in_graph(place: Place, value: ast.expr, statement: ast.stmt, depth: int = 0, leaves: bool = False) -> bool | None:
    """Does the value depend on something that is trained? None if that is unknown.

    `leaves` also counts leaves that are not parameters of a module. They may be data whose gradient is wanted.
    """
    unknown = False
    waiting: list[ast.AST] = [value]
    while waiting:
        node = waiting.pop()
        answer: bool | None = False
        if isinstance(node, ast.Call):
            if leaves and makes_leaf(node):
                return True
            if _cuts_graph(node):
                continue
            answer = _call_in_graph(place, node)
        elif isinstance(node, ast.Attribute):
            answer = _attribute_in_graph(place, node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            answer = _name_in_graph(place, node.id, statement, depth, leaves)
        if answer:
            return True
        unknown = unknown or answer is None
        if not isinstance(node, ast.Attribute):
            waiting.extend(ast.iter_child_nodes(node))
    return None if unknown else False


def _cuts_graph(call: ast.Call) -> bool:
    """`x.detach()`, `x.item()`: the result is in no graph."""
    return isinstance(call.func, ast.Attribute) and without_graph(call.func.attr)


def _call_in_graph(place: Place, call: ast.Call) -> bool | None:
    """Does it run a module? None for a function that is not known. The arguments do not count."""
    if isinstance(call.func, ast.Attribute) and is_library(call.func.value):
        return False
    module = module_made_at(place.files, place.code, call.func)
    if module is not None and called_name(module[1])[:1].isupper():
        return True
    return False if isinstance(call.func, ast.Attribute) else None


def _attribute_in_graph(place: Place, node: ast.Attribute) -> bool | None:
    """Is it a parameter? None if nothing shows what made it."""
    if node.attr in ("shape", "dtype", "device", "data", "grad"):
        return False
    module = module_made_at(place.files, place.code, node)
    return None if module is None else called_name(module[1]) == "Parameter"


def is_leaf(place: Place, path: str, statement: ast.stmt | None = None, depth: int = 0) -> bool:
    """Is it known to be trained itself, not computed?"""
    statement = statement or place.statement
    if "." in path:
        module = module_made_at(place.files, place.code, ast.parse(path, mode="eval").body)
        return module is not None and makes_leaf(module[1])
    for binding in bindings(place.code, statement, path):
        value = getattr(binding, "value", None)
        if isinstance(value, ast.Call) and makes_leaf(value):
            return True
        if binding is None and depth < _DEEPEST:
            arguments = _arguments(place, path, statement) or ()
            if any(isinstance(one, ast.Name) and is_leaf(caller, one.id, None, depth + 1) for caller, one in arguments):
                return True
    return False


def makes_leaf(call: ast.Call) -> bool:
    """`torch.zeros(3, requires_grad=True)`, `x.requires_grad_()`, `nn.Parameter(x)`: a leaf to be trained."""
    if called_name(call) == "Parameter":
        return True
    asked = [word.value for word in call.keywords if word.arg == "requires_grad"]
    if called_name(call) == "requires_grad_":
        asked = asked or call.args or [ast.Constant(True)]
    return any(isinstance(item, ast.Constant) and item.value is True for item in asked)


def _name_in_graph(place: Place, name: str, statement: ast.stmt, depth: int, leaves: bool) -> bool | None:
    if name == place.path or name == "self" or is_library(ast.Name(name)):
        return False
    if depth >= _DEEPEST:
        return None
    unknown = False
    for binding in bindings(place.code, statement, name):
        value = getattr(binding, "value", None)
        if binding is None and (arguments := _given(place, name, statement, depth, leaves)) is not None:
            if arguments:
                return True
            continue
        if binding is None or not isinstance(value, ast.expr) or not isinstance(binding, ast.stmt):
            unknown = True
            continue
        answer = in_graph(place, value, binding, depth + 1, leaves)
        if answer:
            return True
        unknown = unknown or answer is None
    return None if unknown else False


def _given(place: Place, name: str, statement: ast.stmt, depth: int, leaves: bool) -> bool | None:
    """For an argument: does a caller's value depend on something that is trained? None if no caller is known."""
    arguments = _arguments(place, name, statement)
    if arguments is None:
        return None
    answers = [in_graph(caller, argument, caller.statement, depth + 1, leaves) for caller, argument in arguments]
    return True if True in answers else None if None in answers or not answers else False


def _arguments(place: Place, name: str, statement: ast.stmt) -> list[tuple[Place, ast.expr]] | None:
    """What the callers of this function pass for an argument, and where; None if that is unknown."""
    function = place.code.function(statement)
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    found: list[tuple[Place, ast.expr]] = []
    for home, call, bound in calls_of(place.files, place.code, function) or ():
        argument, own = argument_of(function, call, name, bound), home.statement(call)
        if argument is None or own is None:
            return None
        found.append((replace(place, code=home, node=call, statement=own), argument))
    return found


def _trained(place: Place, name: str) -> bool:
    """Does an optimizer get this name, or is its gradient read?"""
    for node in ast.walk(place.code.scope(place.statement)):
        if isinstance(node, ast.Attribute) and node.attr == "grad" and ast.unparse(node.value) == name:
            return True
        optimizer = isinstance(node, ast.Call) and makes_optimizer(node)
        arguments = node.args if optimizer else []  # type: ignore[attr-defined]
        if any(isinstance(part, ast.Name) and part.id == name for arg in arguments for part in ast.walk(arg)):
            return True
    return False
