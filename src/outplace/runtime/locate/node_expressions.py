"""Which expression of a statement made a node: `self.act(x) * y.exp()` with `ExpBackward0` means `y.exp()`."""

from __future__ import annotations

import ast
from functools import lru_cache

from outplace.knowledge import ops
from outplace.knowledge.by_hand import MADE_BY, MADE_BY_LAYERS
from outplace.knowledge.nodes import by_node
from outplace.knowledge.traits import is_factory
from outplace.model import Site
from outplace.repair.syntax.calls import called_name
from outplace.runtime.locate.sites import Located, at_place, file_of, narrowed
from outplace.runtime.record.log import Place

_OPERATORS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Add: ("add",),
    ast.Sub: ("sub", "rsub"),
    ast.Mult: ("mul",),
    ast.Div: ("div", "reciprocal", "mul"),
    ast.Pow: ("pow", "pow_tensor_scalar"),
    ast.MatMult: ("mm", "bmm", "mv", "dot", "matmul"),
    ast.Mod: ("remainder",),
    ast.USub: ("neg",),
}


def made_at(place: Place, node: str) -> Site | None:
    """The expression that made a node. Cached, because a loop makes thousands of nodes at one place."""
    return _made_at(place, file_of(place), node)


@lru_cache(maxsize=4096)
def _made_at(place: Place, _: str | None, node: str) -> Site | None:
    located = at_place(place)
    return None if located is None else narrow_to_maker(located, node).site


def narrow_to_maker(located: Located, node: str) -> Located:
    """Narrows a statement to the expression that made the node; if several may have, to the one around them all."""
    if located.statement is None:
        return located
    operation = by_node(node)
    names = {operation.op.removesuffix("_"), operation.label, *MADE_BY.get(operation.op, ())}
    if operation.origin == "function":
        names = {"apply"}
    root = located.node if isinstance(located.node, ast.expr) else located.statement
    makers = [expression for expression in _expressions(root) if _makes(expression, names)]
    if isinstance(located.node, ast.AugAssign) and not names.isdisjoint(_OPERATORS.get(type(located.node.op), ())):
        return located  # `h *= gate(x)` itself
    if not makers and isinstance(located.node, ast.Call):
        makers = _around(located.node, located.statement, names)
    if not makers:
        calls = [call for call in _expressions(root) if isinstance(call, ast.Call) and _may_be_module(call)]
        makers = [call for call in calls if operation.op not in MADE_BY_LAYERS or not _is_operation(call)]
    return narrowed(located, _holding_all(located.statement, makers))


def _is_operation(call: ast.Call) -> bool:
    """Is it `torch.tanh(x)`, `F.relu(x)`, or a method of a result, as in `net(x).mean(0)`?"""
    function = call.func
    if not isinstance(function, ast.Attribute):
        return False
    if not isinstance(function.value, ast.Name | ast.Attribute | ast.Subscript):
        return ops.lookup(f"Tensor.{function.attr}") is not None
    holder = ast.unparse(function.value)
    if holder == "torch":
        return is_factory(function.attr) or ops.lookup(f"torch.{function.attr}") is not None
    return holder in ("F", "nn.functional") and ops.lookup(f"F.{function.attr}") is not None


def _holding_all(statement: ast.stmt, makers: list[ast.expr]) -> list[ast.expr]:
    """The innermost expression that contains all those that may have made the node."""
    if len(makers) < 2:
        return makers
    parts = [(node, set(ast.walk(node))) for node in _expressions(statement)]
    holding = [(len(inside), node) for node, inside in parts if inside.issuperset(makers)]
    return [min(holding, key=lambda item: item[0])[1]] if holding else []


def _around(call: ast.Call, statement: ast.stmt, names: set[str]) -> list[ast.expr]:
    """After a function of the user has returned, its caller's line continues: `f(x) @ w`.

    The call itself may also continue, if a library function lies between. The innermost expression around both is
    right.
    """
    inside = set(ast.walk(call))
    makers = [node for node in _expressions(statement) if node not in inside and _makes(node, names)]
    return _holding_all(statement, [*makers, call]) if makers else []


def _expressions(root: ast.AST) -> list[ast.expr]:
    """The expressions of a statement without the blocks inside it, or those of an expression."""
    found: list[ast.expr] = []
    stack = [root]
    while stack:
        node = stack.pop()
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.stmt | ast.Lambda):
                stack.append(child)
        if isinstance(node, ast.expr):
            found.append(node)
    return found


def _makes(expression: ast.expr, names: set[str]) -> bool:
    if isinstance(expression, ast.BinOp | ast.UnaryOp):
        return not names.isdisjoint(_OPERATORS.get(type(expression.op), ()))
    if isinstance(expression, ast.Call):
        return called_name(expression).removesuffix("_") in names
    return isinstance(expression, ast.Subscript) and "__getitem__" in names


def _may_be_module(call: ast.Call) -> bool:
    """Could this call run a module or a helper, unlike `range` or `len`?"""
    has_arguments = bool(call.args or call.keywords)
    return has_arguments and called_name(call) not in {"range", "len", "zip", "enumerate", "print", "isinstance"}
