"""Which function a call runs, and which constructor made a module, as far as names show."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

from outplace.knowledge.by_hand import MODULE_RETURNS_ITSELF
from outplace.knowledge.traits import inplace_position, method_has
from outplace.repair.syntax.calls import called_name
from outplace.repair.syntax.code import Code, Function, is_library, same
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import binds


def may_share(name: str) -> bool:
    """May the result of this method or function share memory with the tensor?"""
    return method_has(name, "may_share")


_DEEPEST = 4


def is_inplace_call(call: ast.Call) -> bool:
    """`x.add_(1)`, `torch.relu_(x)`, `F.relu(x, inplace=True)`: the result is the argument itself."""
    return (isinstance(call.func, ast.Attribute) and is_writing_name(call.func.attr)) or has_flag(call)


def is_writing_name(method: str) -> bool:
    """PyTorch's convention: `add_` writes its tensor. `__add__` does not."""
    return method.endswith("_") and not method.endswith("__")


def has_flag(call: ast.Call) -> bool:
    """Does it pass `inplace=` anything but False, by name or by position?"""
    for keyword in call.keywords:
        if keyword.arg == "inplace":
            return not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
    position = inplace_position(called_name(call))
    flag = call.args[position] if position is not None and position < len(call.args) else None
    return isinstance(flag, ast.Constant) and flag.value is True


def callee_of(files: Files, code: Code, call: ast.Call) -> tuple[Code, Function, bool] | None:
    """The project's function that a call runs, if its name shows it; True if its first argument is self."""
    function = call.func
    if isinstance(function, ast.Name):
        found = _functions(files, code, function.id)
        return (*found[0], False) if len(found) == 1 else None
    if isinstance(function, ast.Attribute):
        own = code.class_of(call)
        if _is_self(function.value) and own is not None:
            method = method_of(own, function.attr)
            if method is not None:
                return code, method, not _is_static(method)
        if isinstance(function.value, ast.Name | ast.Attribute) and not is_library(function.value):
            imported = _of_module(files, code, function)
            if imported is not None:
                return (*imported, False)
            methods = _methods(files, function.attr)
            if len(methods) == 1 and not may_share(function.attr):
                return (*methods[0], not _is_static(methods[0][1]))
    return None


def _of_module(files: Files, code: Code, function: ast.Attribute) -> tuple[Code, Function] | None:
    """`energy` of `losses.energy`, if `losses` is a module that the file imports."""
    if not isinstance(function.value, ast.Name):
        return None
    imported = [item for node in code.every(ast.Import) for item in node.names]
    imported += [item for node in code.every(ast.ImportFrom) for item in node.names]
    names = [item.name for item in imported if (item.asname or item.name) == function.value.id]
    ends = tuple(f"{os.sep}{name.split('.')[-1]}.py" for name in names)
    found = [
        (other, node)
        for other in files.codes(function.attr)
        if names and f"{os.sep}{other.path}".endswith(ends)
        for node in other.tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function.attr
    ]
    return found[0] if len(found) == 1 else None


def class_named(files: Files, name: str) -> tuple[Code, ast.ClassDef] | None:
    """The class with this name, if there is only one."""
    found = [(code, node) for code in files.codes(name) for node in code.every(ast.ClassDef) if node.name == name]
    return found[0] if len(found) == 1 else None


def method_of(owner: ast.ClassDef, name: str) -> Function | None:
    """A method by its name."""
    for node in owner.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return node
    return None


def _functions(files: Files, code: Code, name: str) -> list[tuple[Code, Function]]:
    own = [(code, node) for node in _top_functions(code) if node.name == name]
    return own or [(other, node) for other in files.codes(name) for node in _top_functions(other) if node.name == name]


def _top_functions(code: Code) -> Iterator[Function]:
    yield from (node for node in code.functions if not isinstance(code.parents[node], ast.ClassDef))


def _methods(files: Files, name: str) -> list[tuple[Code, Function]]:
    found: list[tuple[Code, Function]] = []
    for code in files.codes(name):
        methods = (method_of(node, name) for node in code.every(ast.ClassDef))
        found += [(code, method) for method in methods if method is not None]
    return found


def _is_static(function: Function) -> bool:
    return any(ast.unparse(decorator) == "staticmethod" for decorator in function.decorator_list)


def module_made_at(files: Files, code: Code, function: ast.expr, depth: int = 0) -> tuple[Code, ast.Call] | None:
    """The constructor call behind `self.relu` or `relu`, if a single assignment to that name makes it.

    `self.net = net` in an `__init__` takes it from the call that makes the object. `net.eval()` is the same module.
    `layer` in `for layer in self.layers` is one of the modules that the list was made of.
    """
    if not isinstance(function, ast.Name | ast.Attribute):
        return None
    iterated = _iterated(code, function) if isinstance(function, ast.Name) and depth < _DEEPEST else None
    if iterated is not None:
        listed = module_made_at(files, code, iterated, depth + 1)
        return None if listed is None else _element(*listed)
    assignments = _assignments_of(files, code, function)
    if len(assignments) != 1:
        return None
    home, value = assignments[0]
    arguments = _given_to_init(files, home, value) if depth < _DEEPEST else None
    return arguments or ((home, value) if isinstance(value, ast.Call) else None)


def _assignments_of(files: Files, code: Code, function: ast.Name | ast.Attribute) -> list[tuple[Code, ast.expr]]:
    """What is assigned to this name or attribute: in the same class, else in the same file, else in any file."""
    if isinstance(function, ast.Name):
        return [(code, value) for target, value in _assigned_in(code) if same(target, function)]
    found = [
        (home, value)
        for home in files.codes(function.attr)
        for target, value in _assigned_in(home)
        if isinstance(target, ast.Attribute) and target.attr == function.attr
    ]
    own = [item for item in found if item[0] is code]
    within = code.class_of(function) if _is_self(function.value) else None
    of_class = [item for item in own if within is not None and code.class_of(item[1]) is within]
    return of_class or own or found


def _assigned_in(code: Code) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The targets of a file with the calls and names that they are bound to."""
    for node in code.every(ast.Assign):
        yield from ((target, value) for target, value in assigned(node) if isinstance(value, ast.Call | ast.Name))


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def assigned(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets with their values; `a, b = f(), g()` is taken apart."""
    for target in node.targets:
        if isinstance(target, ast.Tuple | ast.List) and isinstance(node.value, ast.Tuple | ast.List):
            if len(target.elts) == len(node.value.elts):
                yield from zip(target.elts, node.value.elts, strict=True)
        else:
            yield target, node.value


def _iterated(code: Code, name: ast.Name) -> ast.expr | None:
    """`self.layers` for `layer` inside `for i, layer in enumerate(self.layers)`, or of `zip`."""
    statement = code.statement(name)
    for loop in code.loops(statement) if statement is not None else ():
        if isinstance(loop, ast.For) and binds(loop, name.id):
            if isinstance(loop.target, ast.Name):
                return loop.iter
            names = [ast.unparse(item) for item in getattr(loop.target, "elts", ())]
            place = names.index(name.id) if name.id in names else -1
            kind = ast.unparse(loop.iter.func) if isinstance(loop.iter, ast.Call) else ""
            arguments = loop.iter.args if isinstance(loop.iter, ast.Call) else []
            if kind == "enumerate" and place == 1 and arguments:
                return arguments[0]
            return arguments[place] if kind == "zip" and 0 <= place < len(arguments) else None
    return None


def _element(code: Code, listed: ast.Call) -> tuple[Code, ast.Call] | None:
    """The constructor of the modules in a ModuleList, if all have one class."""
    argument = listed.args[0] if called_name(listed) == "ModuleList" and listed.args else None
    if isinstance(argument, ast.ListComp | ast.GeneratorExp):
        parts = [argument.elt]
    else:
        parts = argument.elts if isinstance(argument, ast.List | ast.Tuple) else []
    calls = [part for part in parts if isinstance(part, ast.Call)]
    return (
        (code, calls[0])
        if calls and len(calls) == len(parts) and len({called_name(new_value) for new_value in calls}) == 1
        else None
    )


def _given_to_init(files: Files, code: Code, value: ast.expr) -> tuple[Code, ast.Call] | None:
    """The constructor call of the argument for a parameter of `__init__`, if its class is made in one place only."""
    while (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in MODULE_RETURNS_ITSELF
    ):
        value = value.func.value
    arguments = given_to_init(files, code, value) if isinstance(value, ast.Name) else []
    if len(arguments) != 1:
        return None
    home, argument = arguments[0]
    if isinstance(argument, ast.Call):
        return home, argument
    return None if argument is None else module_made_at(files, home, argument, _DEEPEST)


def given_to_init(files: Files, code: Code, name: ast.Name) -> list[tuple[Code, ast.expr | None]]:
    """What each call that makes an object passes for this parameter of `__init__`; empty if it is not a parameter."""
    function, owner = code.function(name), code.class_of(name)
    if not isinstance(function, ast.FunctionDef) or function.name != "__init__" or owner is None:
        return []
    if name.id not in [arg.arg for arg in function.args.args][1:]:
        return []
    calls = [(home, call) for home in files.codes(owner.name) for call in home.every(ast.Call) if _makes(call, owner)]
    return [(home, argument_of(function, call, name.id, bound=True)) for home, call in calls]


def argument_of(function: Function, call: ast.Call, name: str, bound: bool) -> ast.expr | None:
    """The argument of a call for a parameter of the function."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    positions = [arg.arg for arg in [*function.args.posonlyargs, *function.args.args]][1 if bound else 0 :]
    if name not in positions or any(isinstance(arg, ast.Starred) for arg in call.args):
        return None
    index = positions.index(name)
    return call.args[index] if index < len(call.args) else None


def _makes(call: ast.Call, owner: ast.ClassDef) -> bool:
    return called_name(call) == owner.name
