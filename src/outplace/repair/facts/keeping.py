"""Does a function hold on to a tensor when it has returned: on `self`, in a list, in a closure, by a cache or a hook?

What it holds on to is not fresh for its caller, and what it was given is its own from then on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from outplace.repair.facts import aliases, origins
from outplace.repair.syntax.code import Code, Function
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import flat, targets_of

_DEEPEST = 4
_HARMLESS = {
    "staticmethod", "classmethod", "abstractmethod", "override", "property", "overload", "final", "no_grad",
    "enable_grad", "inference_mode", "set_grad_enabled", "autocast", "custom_fwd", "custom_bwd", "once_differentiable",
    "compile", "script", "script_method", "ignore", "unused", "export", "jaxtyped", "typechecked", "wraps",
}  # fmt: skip
"""Decorators that keep no result of their function."""
_HOOKS = {"register_forward_hook": 2, "register_module_forward_hook": 2}
"""Where the results of modules go to: which of a hook's arguments has them."""


def keeps(files: Files, code: Code, function: Function | ast.Lambda, name: str, depth: int = 0) -> bool:
    """Does a function hold on to what this name of its own stands for, as far as its source shows?"""
    if depth > _DEEPEST:
        return True
    asked = (function, name)
    if asked not in files.found_out:
        files.found_out[asked] = True  # while it is being found out: nobody knows of a function that calls itself
        files.found_out[asked] = _keeps(files, code, function, name, depth)
    return bool(files.found_out[asked])


def _keeps(files: Files, code: Code, function: Function | ast.Lambda, name: str, depth: int) -> bool:
    body: list[ast.stmt] = [ast.Expr(function.body)] if isinstance(function, ast.Lambda) else function.body
    own = set() if isinstance(function, ast.Lambda) else _lists_of_its_own(files, code, function)
    statements = [node for one in body for node in ast.walk(one) if isinstance(node, ast.stmt)]
    statements = [node for node in statements if _grown(node) not in own]
    shared = aliases.sharing(files, code, statements, {name} | own)
    if shared is None:
        return True
    declared = {one for node in statements if isinstance(node, ast.Global | ast.Nonlocal) for one in node.names}
    inner = [node for one in body for node in ast.walk(one) if isinstance(node, _INNER)]
    seen = any(isinstance(part, ast.Name) and part.id in shared for node in inner for part in ast.walk(node))
    return bool(shared & declared) or seen or given_away(files, code, body, shared, depth)


def _lists_of_its_own(files: Files, code: Code, function: Function) -> set[str]:
    """Lists that are gone when the function has returned: made here, appended to, read by index, and given only to
    functions that can be looked at. What they held is nobody's then."""
    made: dict[str, bool] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr | ast.For | ast.With):
            for target in flat(targets_of(node)):
                if isinstance(target, ast.Name):
                    display = isinstance(node, ast.Assign) and isinstance(node.value, ast.List)
                    made[target.id] = made.get(target.id, True) and display
    declared = {one for node in ast.walk(function) if isinstance(node, ast.Global | ast.Nonlocal) for one in node.names}
    lists = {name for name, display in made.items() if display} - declared
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in lists and isinstance(node.ctx, ast.Load):
            around = code.parents.get(node)
            grows = isinstance(around, ast.Attribute) and _grown(code.statement(node)) == node.id
            reads = isinstance(around, ast.Subscript) and around.value is node and isinstance(around.ctx, ast.Load)
            known = isinstance(around, ast.Call) and node in around.args and _callee(files, code, around) is not None
            if not (grows or reads or known):
                lists.discard(node.id)
    return lists


def _grown(statement: ast.stmt | None) -> str | None:
    """`kept` of `kept.append(x)`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    function = call.func if isinstance(call, ast.Call) else None
    appends = isinstance(function, ast.Attribute) and function.attr == "append" and isinstance(function.value, ast.Name)
    return function.value.id if appends and isinstance(function, ast.Attribute) else None  # type: ignore[attr-defined]


_INNER = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
"""Functions inside a function: what they see may be seen later."""


def given_away(files: Files, code: Code, within: Iterable[ast.AST], names: set[str], depth: int = 0) -> bool:
    """Does this code give what one of the names stands for to a function of the project that keeps it?"""
    for statement in within:
        for call in ast.walk(statement):
            if isinstance(call, ast.Call) and _is_given(call, names):
                callee = _callee(files, code, call)
                if callee is not None and any(
                    keeps(files, callee[0], callee[1], parameter, depth + 1)
                    for parameter in _parameters(callee[1], call, callee[2], names)
                ):
                    return True
    return False


def _is_given(call: ast.Call, names: set[str]) -> bool:
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(name in names for value in values for name in aliases.shown(value))


def _callee(files: Files, code: Code, call: ast.Call) -> tuple[Code, Function, bool] | None:
    """The function of the project that a call runs: by its name, a module's forward, a constructor."""
    found = origins.callee_of(files, code, call)
    if found is not None:
        return found
    forward = origins.forward_of(files, code, call)
    if forward is not None:
        return (*forward, True)
    owner = origins.class_named(files, call.func.id) if isinstance(call.func, ast.Name) else None
    made = origins.method_of(owner[1], "__init__") if owner is not None else None
    return (owner[0], made, True) if owner is not None and made is not None else None


def _parameters(function: Function, call: ast.Call, bound: bool, names: set[str]) -> Iterator[str]:
    """The parameters by which a function gets what these names stand for."""
    own = function.args
    positions = [arg.arg for arg in [*own.posonlyargs, *own.args]][1 if bound else 0 :]
    for index, value in enumerate(call.args):
        if any(name in names for name in aliases.shown(value)):
            if index < len(positions) and not any(isinstance(one, ast.Starred) for one in call.args[: index + 1]):
                yield positions[index]
            else:
                yield from [*positions, *([own.vararg.arg] if own.vararg else [])]
    for keyword in call.keywords:
        if any(name in names for name in aliases.shown(keyword.value)):
            named = keyword.arg in {arg.arg for arg in [*own.posonlyargs, *own.args, *own.kwonlyargs]}
            if named and keyword.arg is not None:
                yield keyword.arg
            elif own.kwarg is not None:
                yield own.kwarg.arg


def is_remembered(function: Function) -> bool:
    """May a decorator of this function keep what it returns, as `lru_cache` does?"""
    names = (ast.unparse(one).split("(")[0].split(".")[-1] for one in function.decorator_list)
    return any(name not in _HARMLESS for name in names)


def hooks_keep(files: Files) -> bool:
    """Does a hook somewhere in these files keep what modules return?"""
    if "hooks" not in files.found_out:
        files.found_out["hooks"] = False
        files.found_out["hooks"] = any(_hook_keeps(files, code, call) for code, call in _registered(files))
    return bool(files.found_out["hooks"])


def _registered(files: Files) -> Iterator[tuple[Code, ast.Call]]:
    for code in files.codes("forward_hook"):
        for node in ast.walk(code.tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in _HOOKS:
                yield code, node


def _hook_keeps(files: Files, code: Code, call: ast.Call) -> bool:
    """A hook that is not found in these files may do whatever it likes."""
    place = _HOOKS[ast.unparse(call.func).split(".")[-1]]
    hook = call.args[0] if call.args else next((one.value for one in call.keywords if one.arg == "hook"), None)
    functions: list[tuple[Code, Function | ast.Lambda, bool]] = []
    if isinstance(hook, ast.Lambda):
        functions = [(code, hook, False)]
    elif isinstance(hook, ast.Name | ast.Attribute):
        found = origins.callee_of(files, code, ast.copy_location(ast.Call(hook, [], []), call))
        functions = [found] if found is not None else []
    elif isinstance(hook, ast.Call):
        maker = origins.callee_of(files, code, hook)
        inner = ast.walk(maker[1]) if maker is not None else iter(())
        functions = [
            (maker[0], node, False) for node in inner if maker and node is not maker[1] and isinstance(node, _INNER)
        ]
    for home, function, bound in functions:
        given = [arg.arg for arg in [*function.args.posonlyargs, *function.args.args]][1 if bound else 0 :]
        if len(given) <= place or keeps(files, home, function, given[place]):
            return True
    return not functions
