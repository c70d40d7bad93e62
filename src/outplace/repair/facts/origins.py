"""Where a value comes from: a tensor of its own, or one that somebody else holds too."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass

from outplace.knowledge import ops
from outplace.knowledge.by_hand import MODULE_RETURNS_ITSELF
from outplace.knowledge.traits import has, inplace_position, method_has
from outplace.repair.syntax.code import Code, Function, is_library
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import bindings, binds

_HANDED_OUT = {
    "get",
    "pop",
    "popleft",
    "popitem",
    "setdefault",
    "parameters",
    "buffers",
    "state_dict",
    "items",
    "values",
    "next",
}
"""Methods that hand out what a container or a module goes on holding."""


@dataclass(frozen=True)
class Origin:
    """`fresh`: nobody else has it. `name`: another name has it. `held`: an attribute or a container has it."""

    kind: str
    path: str = ""


FRESH = Origin("fresh")


def may_share(name: str) -> bool:
    """May the result of such a method or function share memory with the tensor?"""
    return method_has(name, "may_share")


_DEEPEST = 4


def origins(files: Files, code: Code, value: ast.expr, depth: int = 0) -> set[Origin]:
    """What an expression's value may share its memory with."""
    if isinstance(value, ast.Name):
        return {Origin("name", value.id)}
    if isinstance(value, ast.Attribute):
        if method_has(value.attr, "view_attribute"):
            return origins(files, code, value.value, depth)
        if method_has(value.attr, "plain_attribute"):
            return {FRESH}
        holder = value.value
        known = isinstance(holder, ast.Call) or (isinstance(holder, ast.Name) and holder.id not in ("self", "cls"))
        held = {Origin("held", ast.unparse(value))}
        return held | origins(files, code, holder, depth) if known and not is_library(holder) else held
    if isinstance(value, ast.Subscript):
        inverted = isinstance(value.slice, ast.UnaryOp) and isinstance(value.slice.op, ast.Invert)
        if inverted or isinstance(value.slice, ast.List | ast.Compare):
            return {FRESH}  # a mask or a list of indices makes a copy
        return origins(files, code, value.value, depth)  # a view, or something that a container holds
    if isinstance(value, ast.IfExp):
        return origins(files, code, value.body, depth) | origins(files, code, value.orelse, depth)
    if isinstance(value, ast.BoolOp):
        return set().union(*(origins(files, code, part, depth) for part in value.values))
    if isinstance(value, ast.NamedExpr | ast.Starred):
        return origins(files, code, value.value, depth)
    if isinstance(value, ast.Tuple | ast.List | ast.Set):
        return set().union({FRESH}, *(origins(files, code, part, depth) for part in value.elts))
    if isinstance(value, ast.Dict):
        return set().union({FRESH}, *(origins(files, code, part, depth) for part in value.values))
    if isinstance(value, ast.BinOp) and any(isinstance(part, DISPLAYS) for part in (value.left, value.right)):
        return origins(files, code, value.left, depth) | origins(files, code, value.right, depth)  # `kept + [x]`
    if isinstance(value, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        return _of_comprehension(files, code, value, depth)
    if isinstance(value, ast.Call):
        return _of_call(files, code, value, depth)
    if isinstance(value, ast.Await | ast.Yield | ast.YieldFrom):
        return {Origin("held", ast.unparse(value))}
    return {FRESH}


DISPLAYS = ast.Tuple | ast.List | ast.Set | ast.Dict | ast.ListComp | ast.SetComp | ast.DictComp
"""Containers as they are written down."""
_COMPUTING = {
    "abs", "bool", "deepcopy", "float", "id", "int", "isinstance", "len", "print", "range", "repr", "round", "str",
    "sum",
}  # fmt: skip
"""Functions of Python that hand out nothing that they are given."""


def _of_comprehension(
    files: Files, code: Code, value: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, depth: int
) -> set[Origin]:
    """`[part.view(-1) for part in parts]`: what it goes through, unless each item is made anew."""
    item = value.value if isinstance(value, ast.DictComp) else value.elt
    inner = origins(files, code, item, depth)
    if inner == {FRESH}:
        return {FRESH}
    targets = [node for one in value.generators for node in ast.walk(one.target)]
    own = {Origin("name", node.id) for node in targets if isinstance(node, ast.Name)}
    return (inner - own).union(*(origins(files, code, _items(one.iter), depth) for one in value.generators))


def _items(iterated: ast.expr) -> ast.expr:
    """`d` of `d.items()`: a loop over those goes through what the dict holds."""
    function = iterated.func if isinstance(iterated, ast.Call) else None
    return function.value if isinstance(function, ast.Attribute) and function.attr in ("items", "values") else iterated


def _given(files: Files, code: Code, call: ast.Call, depth: int) -> set[Origin]:
    """Everything that a call is given: nothing is known of what it does with it."""
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    if isinstance(call.func, ast.Lambda):
        values.append(call.func.body)
    elif isinstance(call.func, ast.Call):
        values.append(call.func)
    return set().union({FRESH}, *(origins(files, code, value, depth) for value in values))


def _of_call(files: Files, code: Code, call: ast.Call, depth: int) -> set[Origin]:
    function = call.func
    name = (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )
    if name in _COMPUTING and isinstance(function, ast.Name):
        return {FRESH}
    on_tensor = isinstance(function, ast.Attribute) and not is_library(function.value)
    if is_inplace_call(call) or may_share(name):
        subject: ast.expr | None = call.args[0] if call.args else None
        if on_tensor and isinstance(function, ast.Attribute):
            subject = function.value
        return origins(files, code, subject, depth) if subject is not None else {FRESH}
    if isinstance(function, ast.Attribute) and is_library(function.value):
        if name in ("tree_map", "checkpoint"):
            return _given(files, code, call, depth)
        passes = name in ("dropout", "identity") and call.args
        return origins(files, code, call.args[0], depth) if passes else {FRESH}
    if name in _HANDED_OUT:
        receiver = origins(files, code, function.value, depth) if isinstance(function, ast.Attribute) else set()
        return {Origin("held", ast.unparse(call))} | receiver | _given(files, code, call, depth)
    if depth < _DEEPEST:
        callee = callee_of(files, code, call)
        if callee is not None:
            return _through(files, code, call, *callee, depth)
    short = _lambdas(code, function)
    if short and all(origins(files, code, one.body, depth) == {FRESH} for one in short):
        return {FRESH}
    made = (code, function) if isinstance(function, ast.Call) else module_made_at(files, code, function)
    computes = name == "deepcopy" or (isinstance(function, ast.Attribute) and ops.lookup(name) is not None)
    if _is_imported(code, function) or (computes and made is None):
        return {FRESH}
    from outplace.repair.facts import keeping  # it asks where values come from, too

    hooked = {Origin("held", "a hook")} if keeping.hooks_keep(files) else set()
    if made is not None and _computes(files, *made):
        return {FRESH} | hooked
    forward = forward_of(files, code, call) if depth < _DEEPEST else None
    if forward is not None:
        return _through(files, code, call, *forward, True, depth) | hooked
    return {FRESH} if computes else _given(files, code, call, depth) | hooked


def forward_of(files: Files, code: Code, call: ast.Call) -> tuple[Code, Function] | None:
    """The `forward` that a call of a module, or of an autograd.Function's `apply`, runs, where the class is known."""
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr == "apply":
        kind = ast.unparse(function.value).split(".")[-1]  # its forward's first argument is `ctx`
    else:
        made = (code, function) if isinstance(function, ast.Call) else module_made_at(files, code, function)
        kind = class_name(made[1]) if made is not None else ""
    owner = class_named(files, kind) if kind else None
    if owner is None:
        return None
    run = method_of(owner[1], "__call__") or method_of(owner[1], "forward")
    return None if run is None else (owner[0], run)


def _is_imported(code: Code, function: ast.expr) -> bool:
    """`from torch import exp`"""
    items = [
        item for node in code.every(ast.ImportFrom) if (node.module or "").startswith("torch") for item in node.names
    ]
    return isinstance(function, ast.Name) and function.id in {item.asname or item.name for item in items}


def _lambdas(code: Code, function: ast.expr) -> list[ast.Lambda]:
    """What a name may stand for: `flat = lambda x: x.view(-1)`."""
    if not isinstance(function, ast.Name):
        return []
    made = [node for node in code.every(ast.Assign) if isinstance(node.value, ast.Lambda)]
    return [node.value for node in made if binds(node, function.id) and isinstance(node.value, ast.Lambda)]


def _computes(files: Files, code: Code, made: ast.expr, depth: int = 0) -> bool:
    """A module of torch whose output is new; of several in a row, one of them; or a function that builds such a one."""
    if not isinstance(made, ast.Call):
        return False
    if class_name(made) == "Sequential":
        return any(_computes(files, code, part, depth) for given in made.args for part in _listed(code, given))
    if ops.lookup(f"nn.{class_name(made)}") is not None:
        return not has(f"nn.{class_name(made)}", "may_share") and not has_flag(made)
    builder = callee_of(files, code, made) if depth < _DEEPEST else None
    if builder is None:
        return False
    home, function, _ = builder
    built = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    return bool(built) and all(one is not None and _computes(files, home, one, depth + 1) for one in built)


def _listed(code: Code, given: ast.expr) -> list[ast.expr]:
    """Of `*layers` what its function puts into that list, by `=`, `+=`, `append` and `extend`."""
    inner = given.value if isinstance(given, ast.Starred) else given
    if not isinstance(inner, ast.Name):
        return [given]
    found: list[ast.expr] = []
    for node in ast.walk(code.scope(inner)):
        if isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found += [node.value] if inner.id in map(ast.unparse, targets) else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROWING:
            found += node.args if ast.unparse(node.func.value) == inner.id else []
    return [part for one in found for part in (one.elts if isinstance(one, ast.List | ast.Tuple) else [one])]


_GROWING = ("append", "extend")


def is_inplace_call(call: ast.Call) -> bool:
    """`x.add_(1)`, `torch.relu_(x)`, `F.relu(x, inplace=True)`: the result is the tensor that was given."""
    name = (
        call.func.attr
        if isinstance(call.func, ast.Attribute)
        else call.func.id
        if isinstance(call.func, ast.Name)
        else ""
    )
    return (name.endswith("_") and not name.endswith("__") and isinstance(call.func, ast.Attribute)) or has_flag(call)


def has_flag(call: ast.Call) -> bool:
    """Does it say `inplace=` anything but False, by name or by position?"""
    for keyword in call.keywords:
        if keyword.arg == "inplace":
            return not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
    position = inplace_position(class_name(call))
    flag = call.args[position] if position is not None and position < len(call.args) else None
    return isinstance(flag, ast.Constant) and flag.value is True


def class_name(call: ast.Call) -> str:
    """`ReLU` of `nn.ReLU()`."""
    return ast.unparse(call.func).split(".")[-1]


def callee_of(files: Files, code: Code, call: ast.Call) -> tuple[Code, Function, bool] | None:
    """The function of the project that a call runs, where its name says so; True where its first argument is self."""
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
    """`energy` of `losses.energy`, where `losses` is a module that the file imports."""
    if not isinstance(function.value, ast.Name):
        return None
    imported = [item for node in code.every(ast.Import) for item in node.names]
    imported += [item for node in code.every(ast.ImportFrom) for item in node.names]
    given = [item.name for item in imported if (item.asname or item.name) == function.value.id]
    ends = tuple(f"{os.sep}{name.split('.')[-1]}.py" for name in given)
    found = [
        (other, node)
        for other in files.codes(function.attr)
        if given and f"{os.sep}{other.path}".endswith(ends)
        for node in other.tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function.attr
    ]
    return found[0] if len(found) == 1 else None


def class_named(files: Files, name: str) -> tuple[Code, ast.ClassDef] | None:
    """The class of this name, where there is only one."""
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


def _through(
    files: Files, code: Code, call: ast.Call, home: Code, callee: Function, bound: bool, depth: int
) -> set[Origin]:
    """What a call of this function hands out: fresh values, its arguments, or what somebody holds."""
    from outplace.repair.facts import keeping  # it asks where values come from, too

    own = callee.args
    parameters = [arg.arg for arg in [*own.posonlyargs, *own.args]][1 if bound else 0 :]
    parameters += [arg.arg for arg in own.kwonlyargs]
    gathered = {arg.arg for arg in (own.vararg, own.kwarg) if arg is not None}
    found: set[Origin] = set()
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(callee)):
        return _given(files, code, call, depth)
    if keeping.is_remembered(callee):
        found.add(Origin("held", f"{callee.name}()"))
    for node in ast.walk(callee):
        if isinstance(node, ast.Return) and node.value is not None and home.function(node) is callee:
            names = {one.path for one in origins(files, home, node.value, depth + 1) if one.kind == "name"}
            if any(keeping.keeps(files, home, callee, name, depth + 1) for name in names):
                found.add(Origin("held", f"{callee.name}()"))
            for origin in _followed(files, home, node, node.value, parameters, depth + 1):
                if origin.kind == "name" and origin.path in parameters:
                    found |= _argument(files, code, call, parameters.index(origin.path), origin.path, depth)
                elif origin.kind == "name" and origin.path in gathered:
                    found |= _given(files, code, call, depth)
                elif origin.kind != "fresh":
                    found.add(origin)
    return found or {FRESH}


def _followed(
    files: Files, code: Code, statement: ast.stmt, value: ast.expr, parameters: list[str], depth: int
) -> set[Origin]:
    """What a value may share its memory with; the function's own names are followed to what they stand for."""
    found: set[Origin] = set()
    waiting = [(statement, origin) for origin in origins(files, code, value, depth)]
    seen: set[tuple[ast.stmt, Origin]] = set()
    while waiting:
        here, origin = waiting.pop()
        if (here, origin) in seen:
            continue
        seen.add((here, origin))
        if origin.kind != "name" or origin.path in parameters:
            found.add(origin)
            continue
        for binding in bindings(code, here, origin.path):
            if binding is None:
                found.add(origin)  # of a function around it
            source = binding.iter if isinstance(binding, ast.For) else getattr(binding, "value", None)
            own = binding if isinstance(binding, ast.stmt) else code.statement(binding) if binding is not None else None
            if isinstance(source, ast.expr) and own is not None:
                waiting += [(own, one) for one in origins(files, code, source, depth)]
    return found


def _argument(files: Files, code: Code, call: ast.Call, index: int, name: str, depth: int) -> set[Origin]:
    for keyword in call.keywords:
        if keyword.arg == name:
            return origins(files, code, keyword.value, depth)
    if index < len(call.args):
        return origins(files, code, call.args[index], depth)
    return {FRESH}


def module_made_at(files: Files, code: Code, function: ast.expr, depth: int = 0) -> tuple[Code, ast.Call] | None:
    """The constructor call behind `self.relu` or `relu`, where a single assignment of that name makes it.

    `self.net = net` of an `__init__` has it from where such an object is made, `net.eval()` is the same module, and
    `layer` of `for layer in self.layers` is one of those that the list was made of.
    """
    if not isinstance(function, ast.Name | ast.Attribute):
        return None
    iterated = _iterated(code, function) if isinstance(function, ast.Name) and depth < _DEEPEST else None
    if iterated is not None:
        listed = module_made_at(files, code, iterated, depth + 1)
        return None if listed is None else _element(*listed)
    found: list[tuple[Code, ast.expr]] = []
    attribute = function.attr if isinstance(function, ast.Attribute) else None
    for home in files.codes(attribute or str(getattr(function, "id", ""))):
        for node in home.every(ast.Assign):
            named = [value for target, value in assigned(node) if _names(target, function, attribute, home is code)]
            found += [(home, value) for value in named if isinstance(value, ast.Call | ast.Name)]
    own = [item for item in found if item[0] is code]
    within = code.class_of(function) if isinstance(function, ast.Attribute) and _is_self(function.value) else None
    of_class = [item for item in own if within is not None and code.class_of(item[1]) is within]
    candidates = of_class or own or found
    if len(candidates) != 1:
        return None
    home, value = candidates[0]
    given = _given_to_init(files, home, value) if depth < _DEEPEST else None
    return given or ((home, value) if isinstance(value, ast.Call) else None)


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.Call]]:
    """Targets with the calls they are bound to."""
    yield from ((target, value) for target, value in assigned(node) if isinstance(value, ast.Call))


def assigned(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets with what they are bound to, `a, b = f(), g()` taken apart."""
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
            given = loop.iter.args if isinstance(loop.iter, ast.Call) else []
            if kind == "enumerate" and place == 1 and given:
                return given[0]
            return given[place] if kind == "zip" and 0 <= place < len(given) else None
    return None


def _element(code: Code, listed: ast.Call) -> tuple[Code, ast.Call] | None:
    """The constructor of the modules in a ModuleList, where all are of one class."""
    given = listed.args[0] if class_name(listed) == "ModuleList" and listed.args else None
    if isinstance(given, ast.ListComp | ast.GeneratorExp):
        parts = [given.elt]
    else:
        parts = given.elts if isinstance(given, ast.List | ast.Tuple) else []
    made = [part for part in parts if isinstance(part, ast.Call)]
    return (code, made[0]) if made and len(made) == len(parts) and len({class_name(one) for one in made}) == 1 else None


def _given_to_init(files: Files, code: Code, value: ast.expr) -> tuple[Code, ast.Call] | None:
    """The constructor call of what `__init__` is given for a parameter, where its class is made in one place only."""
    while (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in MODULE_RETURNS_ITSELF
    ):
        value = value.func.value
    given = given_to_init(files, code, value) if isinstance(value, ast.Name) else []
    if len(given) != 1:
        return None
    home, argument = given[0]
    if isinstance(argument, ast.Call):
        return home, argument
    return None if argument is None else module_made_at(files, home, argument, _DEEPEST)


def given_to_init(files: Files, code: Code, name: ast.Name) -> list[tuple[Code, ast.expr | None]]:
    """What each call that makes an object gives to its `__init__` for this parameter; nothing, if it is none."""
    function, owner = code.function(name), code.class_of(name)
    if not isinstance(function, ast.FunctionDef) or function.name != "__init__" or owner is None:
        return []
    if name.id not in [arg.arg for arg in function.args.args][1:]:
        return []
    made = [(home, call) for home in files.codes(owner.name) for call in home.every(ast.Call) if _makes(call, owner)]
    return [(home, argument_of(function, call, name.id, bound=True)) for home, call in made]


def argument_of(function: Function, call: ast.Call, name: str, bound: bool) -> ast.expr | None:
    """What a call gives for a parameter of the function."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    positions = [arg.arg for arg in [*function.args.posonlyargs, *function.args.args]][1 if bound else 0 :]
    if name not in positions or any(isinstance(arg, ast.Starred) for arg in call.args):
        return None
    index = positions.index(name)
    return call.args[index] if index < len(call.args) else None


def _makes(call: ast.Call, owner: ast.ClassDef) -> bool:
    return class_name(call) == owner.name


def _names(target: ast.expr, function: ast.expr, attribute: str | None, same_file: bool) -> bool:
    if attribute is not None:
        return isinstance(target, ast.Attribute) and target.attr == attribute
    return same_file and isinstance(target, ast.Name) and isinstance(function, ast.Name) and target.id == function.id
