"""What a statement writes, by its syntax alone."""

from __future__ import annotations

import ast

from outplace.knowledge.syntax_trees import text_of

_FUNCTIONS = ("torch.", "nn.", "init.", "F.")
_PARTS = ("data", "T", "mT")


def written_by(call: ast.Call) -> ast.expr | None:
    """`x` of `x.zero_()`, `torch.relu_(x)`, `nn.init.zeros_(x)`, `zeros_(x)`; None where the name is no such one's."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if not name.endswith("_") or name.endswith("__"):
        return None
    if isinstance(call.func, ast.Attribute) and not text_of(call.func).startswith(_FUNCTIONS):
        return call.func.value
    return call.args[0] if call.args else None


def attribute_of(written: ast.expr) -> ast.Attribute | None:
    """`layer.weight` of `layer.weight.data[0]`: the attribute that a write goes through; None where that has a name."""
    while True:
        if isinstance(written, ast.Call) and isinstance(written.func, ast.Attribute):
            written = written.func.value
        elif isinstance(written, ast.Subscript) or (isinstance(written, ast.Attribute) and written.attr in _PARTS):
            written = written.value
        else:
            return written if isinstance(written, ast.Attribute) else None
