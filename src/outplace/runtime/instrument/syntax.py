"""Questions about syntax: can it make a node, where does its header end, does it make a leaf."""

from __future__ import annotations

import ast

from outplace.knowledge.traits import has
from outplace.runtime.record.user_files import HANDING_ON


def is_idle(node: ast.expr | None) -> bool:
    """Is this an expression that cannot make a node: names, constants, and containers of them?"""
    if node is None or isinstance(node, ast.Name | ast.Constant | ast.Lambda):
        return True
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not) and is_idle(node.operand)
    if isinstance(node, ast.BoolOp):
        return all(is_idle(value) for value in node.values)
    if isinstance(node, ast.Compare):
        identity = all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops)
        return identity and all(is_idle(value) for value in (node.left, *node.comparators))
    if isinstance(node, ast.Tuple | ast.List):
        return all(is_idle(value) for value in node.elts)
    return False


def needs_mark(node: ast.stmt) -> bool:
    """Can this statement itself (not the blocks inside it) make a node?"""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal | ast.Pass | ast.Break | ast.Continue):
        return False
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        defaults = (*node.args.defaults, *node.args.kw_defaults)
        return bool(node.decorator_list) or not all(map(is_idle, defaults))
    if isinstance(node, ast.Assign):
        return not (is_idle(node.value) and all(isinstance(target, ast.Name) for target in node.targets))
    if isinstance(node, ast.Expr | ast.Return):
        return not is_idle(node.value)
    if isinstance(node, ast.If):
        return not is_idle(node.test)
    return not isinstance(node, ast.Try)


def is_range(node: ast.expr) -> bool:
    """Is it `range(...)`, which makes no node between iterations?"""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"


def is_one_item(node: ast.expr) -> bool:
    """Is it `[x]` or `(x,)`? A multiple of it holds one object many times."""
    return isinstance(node, ast.List | ast.Tuple) and len(node.elts) == 1 and not isinstance(node.elts[0], ast.Constant)


def names_one_thing(node: ast.ListComp) -> bool:
    """Is it `[x for _ in ...]`, which holds the same x each time?"""
    bound = {name.id for part in node.generators for name in ast.walk(part.target) if isinstance(name, ast.Name)}
    return isinstance(node.elt, ast.Name) and node.elt.id not in bound


def compares(node: ast.Call) -> bool:
    """Is it a loss or a distance of two values, such as `F.mse_loss(a, b)`?"""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    return has(name, "compares") and len(node.args) > 1


def may_be_one(one: ast.expr, other: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """Two names, attributes or items, at least one of them a name, that could hold one tensor; without `.data`."""
    one, other = _without_detaching(one), _without_detaching(other)
    paths = isinstance(one, _PATHS) and isinstance(other, _PATHS)
    if not paths or not any(isinstance(side, ast.Name) for side in (one, other)) or ast.dump(one) == ast.dump(other):
        return None
    return one, other


_PATHS = ast.Name | ast.Attribute | ast.Subscript


def _without_detaching(node: ast.expr) -> ast.expr:
    """The `x` of `x.data` and `x.detach()`, which are the same memory."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "detach":
            node = node.func.value
        elif isinstance(node, ast.Attribute) and node.attr == "data":
            node = node.value
        else:
            return node


def same_place(target: ast.expr, value: ast.expr) -> bool:
    """Is it `y[i] = y[i] + v`, which also reads the element that it writes?"""
    if not isinstance(target, ast.Subscript) or not isinstance(value, ast.BinOp):
        return False
    return any(isinstance(side, ast.Subscript) and _same(side, target) for side in (value.left, value.right))


def _same(one: ast.Subscript, other: ast.Subscript) -> bool:
    return ast.dump(one.value) == ast.dump(other.value) and ast.dump(one.slice) == ast.dump(other.slice)


def paired_networks(loop: ast.For | ast.AsyncFor) -> tuple[ast.Attribute, ast.Attribute] | None:
    """The `target.parameters` and `net.parameters` of a loop over `zip(...)` of both, if its body writes in place."""
    call = loop.iter
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "zip":
        return None
    called = [argument.func for argument in call.args[:2] if isinstance(argument, ast.Call)]
    found = [item for item in called if isinstance(item, ast.Attribute) and item.attr in _PARAMETERS]
    return (found[0], found[1]) if len(found) == 2 and any(map(_writes, ast.walk(loop))) else None


_PARAMETERS = ("parameters", "named_parameters")


def _writes(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Attribute) and target.attr == "data" for target in node.targets)
    name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    return isinstance(node, ast.AugAssign) or (name.endswith("_") and not name.endswith("__"))


def makes_leaf(node: ast.Call) -> bool:
    """Is this a call that makes a leaf: `nn.Parameter(...)`, `torch.zeros(..., requires_grad=True)`?"""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name == "Parameter":
        return True
    for keyword in node.keywords:
        if keyword.arg == "requires_grad":
            return not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
    return False


def spans_lines(statement: ast.stmt) -> bool:
    """Does the statement itself (without the blocks inside it) span several lines?"""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Try | ast.While | ast.If):
        return False
    if isinstance(statement, ast.For | ast.AsyncFor | ast.With | ast.AsyncWith):
        return (header_end(statement).end_lineno or 0) > statement.lineno
    if hasattr(ast, "Match") and isinstance(statement, ast.Match):
        return False
    return (statement.end_lineno or 0) > statement.lineno


def header_end(node: ast.stmt) -> ast.expr | ast.stmt:
    """The last expression of a block's header."""
    if isinstance(node, ast.For | ast.AsyncFor):
        return node.iter
    if isinstance(node, ast.With | ast.AsyncWith):
        return node.items[-1].optional_vars or node.items[-1].context_expr
    if isinstance(node, ast.If | ast.While):
        return node.test
    if isinstance(node, ast.ClassDef) and node.bases:
        return node.bases[-1]
    return ast.copy_location(ast.Pass(), node) if isinstance(node, ast.ClassDef) else node


def docstring_and_futures(body: list[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Splits off what must stay first: the docstring and `from __future__` imports."""
    index = 0
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        index = 1
    while index < len(body) and isinstance(future := body[index], ast.ImportFrom) and future.module == "__future__":
        index += 1
    return body[:index], body[index:]


def hands_on(function: ast.FunctionDef | ast.AsyncFunctionDef, statement: ast.stmt) -> bool:
    """Does this statement of a `__torch_function__` carry out the operation that other code called?"""
    if function.name not in HANDING_ON:
        return False
    taken = [parameter.arg for parameter in function.args.args]
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute) and called.attr == function.name:
                return True  # super().__torch_function__(...)
            if isinstance(called, ast.Name) and called.id in taken[1:2]:
                return True
    return False
