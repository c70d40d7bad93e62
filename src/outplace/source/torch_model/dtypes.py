"""Kinds of dtype: "bool", "int", "float", "complex". Each holds what those before it hold; None where nobody knows."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from outplace.knowledge import ops
from outplace.source.values import Const, Tensor, Value

_KINDS = ("bool", "int", "float", "complex")
_OF_NUMBERS = {bool: "bool", int: "int", float: "float", complex: "complex"}

_BOOL_RESULTS = {
    "eq", "ne", "lt", "gt", "le", "ge", "isnan", "isinf", "isfinite", "logical_and", "logical_or", "logical_not",
    "logical_xor",
}  # fmt: skip
_INT_RESULTS = {"argmax", "argmin", "argsort", "nonzero", "searchsorted", "bucketize", "multinomial"}
_REAL_RESULTS = {
    "abs",
    "absolute",
    "angle",
    "real",
    "imag",
    "norm",
    "vector_norm",
    "view_as_real",
    "irfft",
    "irfft2",
    "irfftn",
}
_COMPLEX_RESULTS = {
    "complex",
    "polar",
    "view_as_complex",
    "fft",
    "fft2",
    "fftn",
    "ifft",
    "ifft2",
    "ifftn",
    "rfft",
    "rfft2",
    "rfftn",
}
_FLOAT_ONLY = {
    "div",
    "true_divide",
    "divide",
    "sigmoid",
    "exp",
    "log",
    "sqrt",
    "tanh",
    "sin",
    "cos",
    "normal",
    "uniform",
}
_KEEPING_BOOL = {
    "clone", "view", "reshape", "squeeze", "unsqueeze", "expand", "expand_as", "t", "transpose", "permute", "flatten",
    "contiguous", "narrow", "select", "unbind", "split", "chunk", "bitwise_and", "bitwise_or", "bitwise_not",
    "bitwise_xor", "any", "all", "flip", "roll", "repeat", "masked_fill",
}  # fmt: skip
_ARITHMETIC = {"add", "sub", "mul", "rsub", "pow"}

_PROMOTING = {
    "add", "sub", "mul", "iadd", "isub", "imul", "clamp", "clip", "clamp_min", "clamp_max", "minimum", "maximum", "pow",
    "ipow", "remainder", "imod", "fmod",
}  # fmt: skip
"""Their result is of the highest kind of their operands."""
_DIVIDING = {"div", "true_divide", "itruediv", "idiv", "divide"}


def of_result(op: ops.Op, inputs: list[Tensor], args: list[Value]) -> str | None:
    """The kind of what an operation gives."""
    base = _base(op)
    if base in _BOOL_RESULTS or base in _INT_RESULTS:
        return "bool" if base in _BOOL_RESULTS else "int"
    kinds = {tensor.dtype for tensor in inputs}
    numbers = {type(value.value) for value in args if isinstance(value, Const)}
    if base in _COMPLEX_RESULTS:
        return "complex"
    if base in _REAL_RESULTS:
        return "float" if "complex" in kinds else common(inputs)
    if "complex" in kinds or (base in _ARITHMETIC and complex in numbers):
        return "complex"
    if base in _FLOAT_ONLY:
        return "float" if base not in ("div", "divide") else None
    if base in _ARITHMETIC and any(not isinstance(value, Tensor) for value in args):
        if float in numbers:
            return "float"
        if not all(isinstance(value, (Tensor, Const)) for value in args):
            return "float" if kinds == {"float"} else None
    if kinds == {"bool"} and base not in _KEEPING_BOOL:
        return None  # a sum of them is an int, and so is `mask * 1`
    return common(inputs) or ("float" if "float" in kinds else None)


def common(tensors: Iterable[Tensor]) -> str | None:
    """The kind that all of them have."""
    kinds = {tensor.dtype for tensor in tensors}
    return kinds.pop() if len(kinds) == 1 else None


def cannot_hold(target: Tensor, op: ops.Op, others: Iterable[Tensor], node: ast.AST) -> bool:
    """Is the result of an in-place operation of a higher kind than what it is to be written to?"""
    if target.dtype not in _KINDS[:-1]:
        return False
    base, kinds = _base(op).strip("_"), [other.dtype for other in others]
    if base in _DIVIDING:
        rounded = isinstance(node, ast.Call) and any(word.arg == "rounding_mode" for word in node.keywords)
        kinds += [] if rounded else ["float"]
    elif base in _PROMOTING:
        kinds += map(_of_number, _operands(node))
    else:
        return False
    return max((_KINDS.index(kind) for kind in kinds if kind), default=0) > _KINDS.index(target.dtype)


def _base(op: ops.Op) -> str:
    return op.name.rpartition(".")[2].rstrip("_")


def _operands(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.AugAssign):
        return [node.value]
    return node.args if isinstance(node, ast.Call) else []


def _of_number(operand: ast.expr) -> str | None:
    number = operand.operand if isinstance(operand, ast.UnaryOp) else operand
    return _OF_NUMBERS.get(type(number.value)) if isinstance(number, ast.Constant) else None
