"""An update with another dtype than its target: casts the update if the target must keep its dtype."""

from __future__ import annotations

import ast

from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import Edit

_HELD = ast.Name | ast.Attribute | ast.Subscript | ast.Call


def to_target(code: Code, node: ast.expr | ast.stmt, target: ast.expr) -> list[Edit] | None:
    """`data.add_(update)` becomes `data.add_(update.to(data.dtype))`."""
    value: ast.expr | None = None
    if isinstance(node, ast.Expr):
        node = node.value
    if isinstance(node, ast.AugAssign):
        value = node.value
    elif isinstance(node, ast.Call):
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        tensors = [
            argument for argument in arguments if not isinstance(argument, ast.Constant | ast.Starred)
        ]  # `clamp_(0, highest)`
        value = tensors[0] if len(tensors) == 1 else None
    if value is None or isinstance(value, ast.Constant) or not isinstance(target, ast.Name | ast.Attribute):
        return None
    cast = f".to({code.segment(target)}.dtype)"
    if isinstance(value, _HELD):
        return code.followed(cast, value)
    return code.surrounded(value, "(", f"){cast}")
