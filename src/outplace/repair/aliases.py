"""May a name be bound anew instead of changing its tensor? Only where nobody else is to see the change.

Three answers: "yes" (nobody else can see it), "no" (somebody does, and reads it later), "unknown" (callers that are not
in these files).
"""

from __future__ import annotations

import ast
from typing import Literal

from outplace.repair.code import Code, Function
from outplace.repair.files import Files
from outplace.repair.flow import bindings, binds, earlier_statements, read_later, targets_of
from outplace.repair.origins import Origin, origins

Answer = Literal["yes", "no", "unknown"]

_KEEPERS = {
    "add", "append", "appendleft", "enqueue", "extend", "insert", "push", "put", "register_buffer",
    "register_parameter", "retain_grad", "save", "send", "set", "setdefault", "store", "update", "add_param_group",
}  # fmt: skip
"""Methods that may keep what they are given."""
_MODULE_MAKERS = ("Parameter", "register_parameter", "register_buffer", "Buffer", "UninitializedParameter")
_DEEPEST = 3


def may_rebind(files: Files, code: Code, statement: ast.stmt, path: str, depth: int = 0) -> Answer:
    """May `path` (a name, or an attribute such as `self.h`) be bound to a new tensor at this statement?"""
    if "." in path:
        return _attribute(files, code, statement, path)
    if not _is_own(code, statement, path):
        return "no"
    worst: Answer = "yes"
    for answer in (
        _kept_elsewhere(files, code, statement, path),
        _from_where(files, code, statement, path, depth),
    ):
        if answer == "no":
            return "no"
        worst = answer if answer != "yes" else worst
    return worst


def _is_own(code: Code, statement: ast.stmt, name: str) -> bool:
    """Is it a name of the function itself, not of one around it?"""
    scope = code.scope(statement)
    if any(isinstance(node, ast.Global | ast.Nonlocal) and name in node.names for node in ast.walk(scope)):
        return False
    function = code.function(statement)
    if function is None:
        return True
    return name in _parameters(function) or any(
        binds(node, name) for node in ast.walk(function) if code.function(node) is function
    )


def _parameters(function: Function | ast.Lambda) -> list[str]:
    return [arg.arg for arg in ast.walk(function.args) if isinstance(arg, ast.arg)]


def _kept_elsewhere(files: Files, code: Code, statement: ast.stmt, name: str) -> Answer:
    """Has something else been made to hold the tensor before, and is that read later?"""
    for earlier in earlier_statements(code, statement):
        if isinstance(earlier, ast.Assign | ast.AnnAssign) and earlier.value is not None:
            if not any(o.kind == "name" and o.path == name for o in origins(files, code, earlier.value)):
                continue
            for target in _flat(targets_of(earlier)):
                if not _harmless(code, statement, target, name):
                    return "no"
        elif (isinstance(earlier, ast.Expr | ast.Return) and _hands_over(earlier, name)) or (
            isinstance(earlier, ast.For | ast.AsyncFor)
            and any(o.kind == "name" and o.path == name for o in origins(files, code, earlier.iter))
        ):
            return "no"
    return "yes"


def _flat(targets: list[ast.expr]) -> list[ast.expr]:
    found: list[ast.expr] = []
    for target in targets:
        if isinstance(target, ast.Tuple | ast.List):
            found += _flat(target.elts)
        else:
            found.append(target.value if isinstance(target, ast.Starred) else target)
    return found


def _harmless(code: Code, statement: ast.stmt, target: ast.expr, name: str) -> bool:
    """Is this second holder of the tensor nobody's concern any more?"""
    if isinstance(target, ast.Name):
        return target.id == name or not read_later(code, statement, target.id)
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice | ast.Tuple):
        return True  # copied into a part of another tensor
    if isinstance(target, ast.Attribute):
        return binds(statement, ast.unparse(target))
    return False


def _hands_over(statement: ast.Expr | ast.Return, name: str) -> bool:
    """`outs.append(x)`, `yield x`: a container or a caller now has it too."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Yield) and node.value is not None and _shows(node.value, name):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPERS:
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            if any(_shows(argument, name) for argument in given):
                return True
            if node.func.attr == "retain_grad" and _shows(node.func.value, name):
                return True
    return False


def _shows(node: ast.expr, name: str) -> bool:
    """Is it the name itself, or a display with it?"""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(_shows(item, name) for item in node.elts)
    if isinstance(node, ast.Dict):
        return any(_shows(item, name) for item in node.values)
    while isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(node, ast.Name) and node.id == name


# -- where the tensor came from ---------------------------------------------------------------------------------------


def _from_where(files: Files, code: Code, statement: ast.stmt, name: str, depth: int) -> Answer:
    worst: Answer = "yes"
    for binding in bindings(code, statement, name):
        answer = (
            _from_callers(files, code, statement, name, depth)
            if binding is None
            else _from_binding(files, code, statement, name, binding)
        )
        if answer == "no":
            return "no"
        worst = answer if answer != "yes" else worst
    return worst


def _from_binding(files: Files, code: Code, statement: ast.stmt, name: str, binding: ast.AST) -> Answer:
    if isinstance(binding, ast.For | ast.AsyncFor | ast.With | ast.AsyncWith):
        return "no"  # what a loop hands out, somebody else holds
    value = _value_for(binding, name)
    if value is None:
        return "no"
    for origin in origins(files, code, value):
        if origin.kind == "held" and not _rebound_with(statement, origin):
            return "no"
        if origin.kind == "name" and origin.path != name and read_later(code, statement, origin.path):
            return "no"
        if origin.kind == "name" and origin.path != name:
            own = code.statement(binding)
            if own is not None and own is not statement and own.lineno < statement.lineno:
                beyond = _from_where(files, code, own, origin.path, _DEEPEST - 1)
                if beyond != "yes":
                    return beyond
    return "yes"


def _rebound_with(statement: ast.stmt, origin: Origin) -> bool:
    return binds(statement, origin.path)


def _value_for(binding: ast.AST, name: str) -> ast.expr | None:
    value = getattr(binding, "value", None)
    if isinstance(binding, ast.Assign) and isinstance(value, ast.Tuple | ast.List):
        for target in binding.targets:
            if isinstance(target, ast.Tuple | ast.List) and len(target.elts) == len(value.elts):
                for one, item in zip(target.elts, value.elts, strict=True):
                    if isinstance(one, ast.Name) and one.id == name:
                        return item
    return value if isinstance(value, ast.expr) else None


def _from_callers(files: Files, code: Code, statement: ast.stmt, name: str, depth: int) -> Answer:
    """The tensor is an argument: what do the callers do with it afterwards?"""
    function = code.function(statement)
    if function is None or isinstance(function, ast.Lambda):
        return "yes" if function is None else "unknown"
    if name not in _parameters(function):
        return "unknown"
    if depth >= _DEEPEST:
        return "unknown"
    calls = _calls_of(files, code, function)
    if not calls:
        return "unknown"
    for home, call, bound in calls:
        argument = _argument(function, call, name, bound)
        own = home.statement(call)
        if argument is None or own is None:
            return "unknown"
        for origin in origins(files, home, argument):
            if origin.kind == "held" and not _rebound_with(own, origin):
                return "no"
            if origin.kind == "name" and not binds(own, origin.path):
                if read_later(home, own, origin.path):
                    return "no"
                if home.function(own) is not None or depth == 0:
                    beyond = may_rebind(files, home, own, origin.path, depth + 1)
                    if beyond != "yes":
                        return beyond
    return "yes"


def _calls_of(files: Files, code: Code, function: Function) -> list[tuple[Code, ast.Call, bool]] | None:
    """All calls of a function in these files; None where it is handed around, or called in ways that names hide."""
    owner = code.parents.get(function)
    method = isinstance(owner, ast.ClassDef)
    if function.name.startswith("__") or (method and function.name == "forward"):
        return None
    bound = method and not any(ast.unparse(d) == "staticmethod" for d in function.decorator_list)
    found: list[tuple[Code, ast.Call, bool]] = []
    for home in files.codes(function.name):
        for node in ast.walk(home.tree):
            shown = (
                (isinstance(node, ast.Attribute) and node.attr == function.name)
                if method
                else (
                    (isinstance(node, ast.Name) and node.id == function.name)
                    or (isinstance(node, ast.Attribute) and node.attr == function.name)
                )
            )
            if not shown:
                continue
            parent = home.parents.get(node)
            if not (isinstance(parent, ast.Call) and parent.func is node):
                return None
            found.append((home, parent, bound))
    return found


def _argument(function: Function, call: ast.Call, name: str, bound: bool) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    positions = [arg.arg for arg in [*function.args.posonlyargs, *function.args.args]][1 if bound else 0 :]
    if name not in positions or any(isinstance(arg, ast.Starred) for arg in call.args):
        return None
    index = positions.index(name)
    return call.args[index] if index < len(call.args) else None


# -- attributes -------------------------------------------------------------------------------------------------------


def _attribute(files: Files, code: Code, statement: ast.stmt, path: str) -> Answer:
    """May `self.h` be bound anew? Never a parameter or a buffer; else where all its values are its own."""
    name = path.split(".")[-1]
    if name in ("weight", "bias", "data", "grad"):
        return "no"
    assigned = False
    for home in files.codes(name):
        for node in ast.walk(home.tree):
            if isinstance(node, ast.Call) and _registers(node, name):
                return "no"
            if isinstance(node, ast.Assign):
                for target in _flat(node.targets):
                    if isinstance(target, ast.Attribute) and target.attr == name:
                        assigned = True
                        value = _value_for_attribute(node, target)
                        if value is None or _makes_state(value) or not _all_fresh(files, home, value):
                            return "no"
    for earlier in earlier_statements(code, statement):
        if isinstance(earlier, ast.Assign) and any(o.path == path for o in origins(files, code, earlier.value)):
            return "no"
    return "yes" if assigned else "unknown"


def _registers(call: ast.Call, name: str) -> bool:
    """`self.register_buffer("h", ...)`."""
    makes = ast.unparse(call.func).split(".")[-1] in _MODULE_MAKERS
    return makes and any(isinstance(arg, ast.Constant) and arg.value == name for arg in call.args)


def _value_for_attribute(node: ast.Assign, target: ast.Attribute) -> ast.expr | None:
    for whole in node.targets:
        if whole is target:
            return node.value
        both = isinstance(whole, ast.Tuple | ast.List) and isinstance(node.value, ast.Tuple | ast.List)
        if both and len(whole.elts) == len(node.value.elts) and target in whole.elts:  # type: ignore[attr-defined]
            return node.value.elts[whole.elts.index(target)]  # type: ignore[attr-defined, no-any-return]
    return node.value


def _makes_state(value: ast.expr) -> bool:
    return any(
        isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in _MODULE_MAKERS
        for node in ast.walk(value)
    )


def _all_fresh(files: Files, code: Code, value: ast.expr) -> bool:
    return all(origin.kind == "fresh" for origin in origins(files, code, value))
