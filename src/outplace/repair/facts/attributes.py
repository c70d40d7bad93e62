"""May an attribute be bound to a new tensor instead of changing the one it holds? Does it hold a tensor at all?"""

from __future__ import annotations

import ast
from typing import Literal

from outplace.knowledge.by_hand import PARAMETER_MAKERS
from outplace.repair.facts.origins import FRESH, assigned, given_to_init, is_inplace_call, origins
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import earlier_statements, flat
from outplace.source.heuristics import is_parameter_name

Answer = Literal["yes", "no", "unknown"]

_ITEMS = ("Counter", "OrderedDict", "defaultdict", "deque", "dict", "list")


def may_rebind(files: Files, code: Code, statement: ast.stmt, path: str) -> Answer:
    """May `self.h` be bound anew? Never a parameter or a buffer; else where all its values are its own."""
    name = path.split(".")[-1]
    if name in ("data", "grad") or is_parameter_name(name):
        return "no"
    found = False
    for home in files.codes(name):
        for node in ast.walk(home.tree):
            if isinstance(node, ast.Call) and _registers(node, name):
                return "no"
            if isinstance(node, ast.Assign):
                for target in flat(node.targets):
                    if isinstance(target, ast.Attribute) and target.attr == name:
                        found = True
                        value = _value_for_attribute(node, target)
                        if value is None or _makes_state(value) or not _is_own_value(files, home, name, value):
                            return "no"
    for earlier in earlier_statements(code, statement):
        held = origins(files, code, earlier.value) if isinstance(earlier, ast.Assign) else set()
        if any(one.kind == "held" and one.path.split(".")[-1] == name for one in held):
            return "no"
    return "yes" if found else "unknown"


def is_built_once(files: Files, name: str) -> bool:
    """Is this attribute set while objects are made, and never after? (`self.penalty`, a graph over all weights.)"""
    settings = [(home, node) for home in files.codes(name) for node in ast.walk(home.tree) if _sets(node, name)]
    return bool(settings) and all(_runs_once(files, home, node, _DEEPEST) for home, node in settings)


_DEEPEST = 4
_ADDING = ("append", "appendleft", "extend", "insert", "add", "update", "setdefault")


def _sets(node: ast.AST, name: str) -> bool:
    """`x.name = ...`, `x.name[key] = ...`, `x.name.append(...)`."""
    if isinstance(node, ast.Call):
        held = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr in _ADDING else None
        return isinstance(held, ast.Attribute) and held.attr == name
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        return isinstance(node.value, ast.Attribute) and node.value.attr == name
    return isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Store)


def _runs_once(files: Files, code: Code, node: ast.AST, depth: int) -> bool:
    """Is it run by `__init__` alone, or once by the file itself?"""
    function = code.function(node)
    if function is None:
        return not code.loops(node)
    if isinstance(function, ast.Lambda) or depth == 0:
        return False
    name = function.name
    if name in ("forward", "__call__"):
        return False  # nobody calls them by their names
    calls = [
        (home, call)
        for home in files.codes(name)
        for call in home.every(ast.Call)
        if isinstance(call.func, ast.Name | ast.Attribute) and ast.unparse(call.func).split(".")[-1] == name
    ]
    return name == "__init__" or (bool(calls) and all(_runs_once(files, home, call, depth - 1) for home, call in calls))


def holds_items(files: Files, code: Code, held: ast.Attribute) -> bool:
    """Is `self.totals` a list or a dict, by all that its class binds it to? Of other objects: that any file does."""
    name = held.attr
    owner = code.class_of(held) if ast.unparse(held.value) == "self" else None
    trees = [owner] if owner is not None else [home.tree for home in files.codes(name)]
    values = [
        _value_for_attribute(node, target)
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in flat(node.targets)
        if isinstance(target, ast.Attribute) and target.attr == name
    ]
    made = [value for value in values if not (isinstance(value, ast.Constant) and value.value is None)]
    return bool(made) and all(makes_items(value) for value in made)


def makes_items(value: ast.expr | None) -> bool:
    """`[]`, `{}`, `defaultdict(list)`: something that has items, and is no tensor."""
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).split(".")[-1] in _ITEMS
    return isinstance(value, ast.List | ast.ListComp | ast.Dict | ast.DictComp)


def _registers(call: ast.Call, name: str) -> bool:
    """`self.register_buffer("h", ...)`."""
    makes = ast.unparse(call.func).split(".")[-1] in PARAMETER_MAKERS
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
        isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in PARAMETER_MAKERS
        for node in ast.walk(value)
    )


def _is_own_value(files: Files, code: Code, name: str, value: ast.expr) -> bool:
    """A tensor of its own, one that the attribute had before, or a part of what is there for its parts alone."""
    given = given_to_init(files, code, value) if isinstance(value, ast.Name) else []
    if given:
        return all(one is not None and origins(files, home, one) == {FRESH} for home, one in given)
    others = {one for one in origins(files, code, value) if one.kind != "fresh"}
    if any(one.kind != "held" or not one.path.startswith("self.") for one in others):
        return False
    bases = {one.path.split(".")[-1] for one in others} - {name}
    return all(_only_parted(files, base) for base in bases)


def _only_parted(files: Files, base: str) -> bool:
    """`self.state`, of which `self.pos = self.state[..., 0]` and `self.vel = self.state[..., 1]` are all that is read:
    a write of one part is seen neither in the other nor anywhere else.
    """
    parts: list[ast.expr] = []
    made = [
        (home, value)
        for home in files.codes(base)
        for node in home.every(ast.Assign)
        for target, value in assigned(node)
        if ast.unparse(target) == f"self.{base}"
    ]
    if not made or any(_makes_state(value) or origins(files, home, value) != {FRESH} for home, value in made):
        return False  # such as the weight of a module, which that itself reads
    for home in files.codes(base):
        for node in ast.walk(home.tree):
            if not (isinstance(node, ast.Attribute) and node.attr == base and isinstance(node.ctx, ast.Load)):
                continue
            statement = home.statement(node)
            if isinstance(statement, ast.Assign) and all(isinstance(one, ast.Attribute) for one in statement.targets):
                parts.append(statement.value)
            elif not _fills(home, statement, base):
                return False
    return len(parts) == 1 or _are_apart(parts)


def _fills(code: Code, statement: ast.stmt | None, base: str) -> bool:
    """`self.state[..., 0].uniform_()`, in the function that makes it."""
    function = code.function(statement) if statement is not None else None
    makes = function is not None and any(
        isinstance(node, ast.Assign)
        and any(isinstance(one, ast.Attribute) and one.attr == base for one in node.targets)
        for node in ast.walk(function)
    )
    call = statement.value if isinstance(statement, ast.Expr) else None
    return makes and isinstance(call, ast.Call) and is_inplace_call(call)


def _are_apart(parts: list[ast.expr]) -> bool:
    """`x[..., 0]`, `x[..., 1]`: the same but for one number, which is another each time."""
    if not all(isinstance(part, ast.Subscript) for part in parts):
        return False
    shapes, numbers = set(), []
    for part in parts:
        index = part.slice  # type: ignore[attr-defined]
        items = index.elts if isinstance(index, ast.Tuple) else [index]
        found = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, int)]
        shapes.add(
            tuple("#" if isinstance(i, ast.Constant) and isinstance(i.value, int) else ast.unparse(i) for i in items)
        )
        numbers += found
    return len(shapes) == 1 and len(numbers) == len(parts) == len(set(numbers))
