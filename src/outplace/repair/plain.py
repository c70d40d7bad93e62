"""The plain rewrites: one in-place statement, and the out-of-place statement that means the same."""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass

SYMBOLS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip

_WITHOUT_TWIN = {
    "apply_", "bernoulli_", "cauchy_", "copy_", "exponential_", "fill_", "fill_diagonal_", "geometric_", "log_normal_",
    "map2_", "map_", "normal_", "random_", "requires_grad_", "resize_", "resize_as_", "set_", "share_memory_",
    "sparse_resize_", "uniform_", "zero_",
}  # fmt: skip


@dataclass(frozen=True)
class Rewrite:
    """Source text for a statement, and a title for it."""

    title: str
    text: str
    binds: str | None = None
    """The plain name that gets a new tensor, where it is one."""


def out_of_place(statement: ast.stmt, source: str) -> Rewrite | None:
    """The statement without its in-place operation; None where the form is not plain."""
    if isinstance(statement, ast.AugAssign):
        return _augmented(statement, source)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return _method(statement.value, source) or _out_argument(statement.value, source)
    return _inplace_flag(statement, source)


def under_no_grad(statement: ast.stmt, lines: list[str]) -> Rewrite | None:
    """The statement in a no_grad block: right for an update of a parameter, which must stay the leaf it is."""
    if not isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign) or statement.end_lineno is None:
        return None
    block = lines[statement.lineno - 1 : statement.end_lineno]
    indent = block[0][: len(block[0]) - len(block[0].lstrip())]
    inner = "".join(f"    {line}" if line.strip() else line for line in block)
    return Rewrite("Update the parameter outside the graph", f"{indent}with torch.no_grad():\n{inner}")


def _segment(source: str, node: ast.expr) -> str:
    return ast.get_source_segment(source, node) or ast.unparse(node)


def _augmented(statement: ast.AugAssign, source: str) -> Rewrite | None:
    if isinstance(statement.target, ast.Subscript) and not _is_constant_key(statement.target):
        return None  # x[i] += v writes into x; binding a name does not help
    symbol = SYMBOLS[type(statement.op)]
    target, value = _segment(source, statement.target), _segment(source, statement.value)
    simple = isinstance(statement.value, ast.Name | ast.Constant | ast.Attribute | ast.Subscript | ast.Call)
    multiline = "\n" in value
    value = value if simple and not multiline else f"({value})"
    text = f"{target} = {target} {symbol} {value}"
    return Rewrite(f"Write `{symbol}` out of place", text, _name(statement.target))


def _name(target: ast.expr) -> str | None:
    return target.id if isinstance(target, ast.Name) else None


def _is_constant_key(target: ast.Subscript) -> bool:
    return isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str)


def _method(call: ast.Call, source: str) -> Rewrite | None:
    function = call.func
    if not isinstance(function, ast.Attribute) or not function.attr.endswith("_") or function.attr.endswith("__"):
        return None
    if function.attr in _WITHOUT_TWIN or not isinstance(function.value, ast.Name | ast.Attribute):
        return None
    target = _segment(source, function.value)
    if target.split(".")[0] in ("torch", "nn", "F") or target.split(".")[-1] in ("functional", "init"):
        return None  # a function, not a method: what it writes is its argument
    whole = _segment(source, call)
    rest = whole[len(target) + 1 + len(function.attr) :]
    twin = function.attr[:-1]
    text = f"{target} = {target}.{twin}{rest}"
    return Rewrite(f"Use `{twin}`, which makes a new tensor", text, _name(function.value))


def _out_argument(call: ast.Call, source: str) -> Rewrite | None:
    out = next((keyword for keyword in call.keywords if keyword.arg == "out"), None)
    if out is None or not isinstance(out.value, ast.Name | ast.Attribute):
        return None
    kept = [_segment(source, argument) for argument in call.args]
    kept += [f"{item.arg}={_segment(source, item.value)}" for item in call.keywords if item is not out and item.arg]
    function, target = _segment(source, call.func), _segment(source, out.value)
    text = f"{target} = {function}({', '.join(kept)})"
    return Rewrite("Bind the result instead of writing into `out=`", text, _name(out.value))


def _inplace_flag(statement: ast.stmt, source: str) -> Rewrite | None:
    if not isinstance(statement, ast.Assign | ast.Return | ast.Expr):
        return None
    flags = [
        keyword
        for call in ast.walk(statement)
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if keyword.arg == "inplace" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
    ]
    if len(flags) != 1:
        return None
    flags[0].value = ast.copy_location(ast.Constant(False), flags[0].value)
    text = ast.unparse(statement)
    flags[0].value = ast.copy_location(ast.Constant(True), flags[0].value)
    return Rewrite("Drop `inplace=True`", text)


def diff(filename: str, lines: list[str], statement: ast.stmt, rewrite: Rewrite) -> str:
    """The rewrite as a unified diff."""
    end = statement.end_lineno or statement.lineno
    old = lines[statement.lineno - 1 : end]
    indent = old[0][: len(old[0]) - len(old[0].lstrip())]
    text = rewrite.text if rewrite.text.startswith(indent + "with ") else indent + rewrite.text
    new = [*lines[: statement.lineno - 1], *(text.rstrip("\n") + "\n").splitlines(keepends=True), *lines[end:]]
    return "".join(difflib.unified_diff(lines, new, f"a/{filename}", f"b/{filename}", n=1))
