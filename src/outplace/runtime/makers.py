"""Which expression of a statement made a node: `self.act(x) * y.exp()` with `ExpBackward0` means `y.exp()`."""

from __future__ import annotations

import ast
from functools import lru_cache

from outplace.knowledge.nodes import by_node
from outplace.model import Site
from outplace.runtime.record import Place
from outplace.runtime.sites import Located, at_place, narrowed

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

# Functions whose node carries another name than they do.
_MADE_BY: dict[str, tuple[str, ...]] = {
    "linalg_vector_norm": ("norm", "vector_norm", "normalize"),
    "vector_norm": ("norm", "vector_norm", "normalize"),
    "addmm": ("linear", "addmm", "bilinear"),
    "mm": ("matmul", "mm", "linear", "einsum", "tensordot"),
    "bmm": ("matmul", "bmm", "einsum", "baddbmm"),
    "mv": ("matmul", "mv"),
    "dot": ("matmul", "dot", "inner"),
    "conv": ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    "mse_loss": ("mse_loss",),
    "max_pool2d_with_indices": ("max_pool2d",),
    "scaled_dot_product_flash_attention_for_cpu": ("scaled_dot_product_attention",),
    "index": ("__getitem__",),
}


@lru_cache(maxsize=4096)
def made_at(place: Place, node: str) -> Site | None:
    """The expression that made a node (a loop makes thousands of them at one place)."""
    located = at_place(place)
    return None if located is None else narrow_to_maker(located, node).site


def narrow_to_maker(located: Located, node: str) -> Located:
    """Narrows a statement to the expression that must have made the node; leaves it whole where several could."""
    if located.statement is None:
        return located
    operation = by_node(node)
    names = {operation.op.removesuffix("_"), operation.label, *_MADE_BY.get(operation.op, ())}
    if operation.origin == "function":
        names = {"apply"}
    makers = [expression for expression in _expressions(located) if _makes(expression, names)]
    if isinstance(located.node, ast.AugAssign) and not names.isdisjoint(_OPERATORS.get(type(located.node.op), ())):
        return located  # `h *= gate(x)` itself
    if not makers:
        makers = [call for call in _expressions(located) if isinstance(call, ast.Call) and _may_be_module(call)]
    return narrowed(located, makers)


def _expressions(located: Located) -> list[ast.expr]:
    """The expressions of the statement itself, not those of the blocks inside it."""
    found: list[ast.expr] = []
    stack: list[ast.AST] = [located.node if isinstance(located.node, ast.expr) else located.statement or ast.Pass()]
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
        return _called(expression).removesuffix("_") in names
    return isinstance(expression, ast.Subscript) and "__getitem__" in names


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _may_be_module(call: ast.Call) -> bool:
    """Could this call run a module or a helper, rather than a mere `range` or `len`?"""
    given = bool(call.args or call.keywords)
    return given and _called(call) not in {"range", "len", "zip", "enumerate", "print", "isinstance"}
