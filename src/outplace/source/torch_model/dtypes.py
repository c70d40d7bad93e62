"""Kinds of dtype: "bool", "int", "float", "complex". Each holds what those before it hold; None where nobody knows."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from outplace.knowledge import ops
from outplace.source.torch_model.tensors import dtype_of
from outplace.source.values import Const, Tensor, Torch, Unknown, Value

_KINDS = ("bool", "int", "float", "complex")
_OF_NUMBERS = {bool: "bool", int: "int", float: "float", complex: "complex"}

_BOOL_RESULTS = {
    "eq", "ne", "lt", "gt", "le", "ge", "isnan", "isinf", "isfinite", "logical_and", "logical_or", "logical_not",
    "logical_xor",
}  # fmt: skip
_INT_RESULTS = {"argmax", "argmin", "argsort", "nonzero", "searchsorted", "bucketize", "multinomial"}
_REAL_RESULTS = {
    "abs", "absolute", "angle", "real", "imag", "norm", "vector_norm", "view_as_real", "irfft", "irfft2", "irfftn",
    "hfft", "hfft2", "hfftn",
}  # fmt: skip
_COMPLEX_RESULTS = {
    "complex", "polar", "view_as_complex", "fft", "fft2", "fftn", "ifft", "ifft2", "ifftn", "rfft", "rfft2", "rfftn",
    "ihfft", "ihfft2", "ihfftn", "eig", "eigvals", "cfloat", "cdouble", "chalf",
}  # fmt: skip
_AS_ASKED = {"stft", "type", "to"}
"""What they give depends on what is asked for."""
_FLOAT_ONLY = {
    "div", "true_divide", "divide", "sigmoid", "exp", "log", "sqrt", "tanh", "sin", "cos", "normal", "uniform",
}  # fmt: skip
_KEEPING_BOOL = {
    "clone", "view", "reshape", "squeeze", "unsqueeze", "expand", "expand_as", "t", "transpose", "permute", "flatten",
    "contiguous", "narrow", "select", "unbind", "split", "chunk", "bitwise_and", "bitwise_or", "bitwise_not",
    "bitwise_xor", "any", "all", "flip", "roll", "repeat", "masked_fill", "detach", "diagonal",
}  # fmt: skip
_KEEPING_INT = _KEEPING_BOOL | {
    "add", "sub", "mul", "rsub", "neg", "abs", "sum", "prod", "cumsum", "cumprod", "max", "min", "amax", "amin",
    "maximum", "minimum", "clamp", "clip", "clamp_min", "clamp_max", "floor_divide", "remainder", "sort", "topk",
    "masked_select", "index_select", "gather", "index_add", "index_fill", "scatter", "scatter_add", "where", "tril",
    "triu", "repeat_interleave", "floor", "ceil", "round", "trunc", "sign", "pow", "matmul", "mm", "bmm", "square",
}  # fmt: skip
"""Of all else that is made of integers nobody knows: `log1p` gives floats."""
_ARITHMETIC = {"add", "sub", "mul", "rsub", "pow"}

_PROMOTING = {
    "add", "sub", "mul", "iadd", "isub", "imul", "clamp", "clip", "clamp_min", "clamp_max", "minimum", "maximum", "pow",
    "ipow", "remainder", "imod", "fmod",
}  # fmt: skip
"""Their result is of the highest kind of their operands."""
_DIVIDING = {"div", "true_divide", "itruediv", "idiv", "divide"}


def of_result(op: ops.Op, inputs: list[Tensor], args: list[Value], keywords: dict[str, Value]) -> str | None:
    """The kind of what an operation gives."""
    base = _base(op)
    if base in _BOOL_RESULTS or base in _INT_RESULTS:
        return "bool" if base in _BOOL_RESULTS else "int"
    if "dtype" in keywords or base in _AS_ASKED or any(isinstance(value, Torch) for value in args):
        return dtype_of(keywords)  # `x.view(torch.uint8)`, `x.sum(dtype=torch.float32)`
    kinds = {tensor.dtype for tensor in inputs}
    numbers = {type(value.value) for value in (*args, *keywords.values()) if isinstance(value, Const)}
    if base in _COMPLEX_RESULTS:
        return "complex"
    if base in _REAL_RESULTS:
        return "float" if "complex" in kinds else common(inputs)
    if "complex" in kinds or (base in _ARITHMETIC and complex in numbers):
        return "complex"
    if base in _FLOAT_ONLY:
        return "float" if base not in ("div", "divide") and None not in kinds else None
    if kinds <= {"int", "bool"}:
        return _of_integers(base, kinds, numbers, args)
    if base in _ARITHMETIC and any(not isinstance(value, Tensor) for value in args):
        if float in numbers:
            return "float"
        if any(isinstance(value, Unknown) for value in args):
            return None
        if not all(isinstance(value, (Tensor, Const)) for value in args):
            return "float" if kinds == {"float"} else None
    return common(inputs) or ("float" if "float" in kinds else None)


def _of_integers(base: str, kinds: set[str | None], numbers: set[type], args: list[Value]) -> str | None:
    if base in _ARITHMETIC and float in numbers:
        return "float"
    known = all(isinstance(value, (Tensor, Const)) for value in args) or base not in _ARITHMETIC
    if len(kinds) != 1 or not known or numbers & {float, complex}:
        return None
    (kind,) = kinds
    return kind if base in (_KEEPING_BOOL if kind == "bool" else _KEEPING_INT) else None


def common(tensors: Iterable[Tensor]) -> str | None:
    """The kind that all of them have."""
    kinds = {tensor.dtype for tensor in tensors}
    return kinds.pop() if len(kinds) == 1 else None


def excess(target: Tensor, op: ops.Op, others: Iterable[Tensor], node: ast.AST) -> str | None:
    """The kind of an in-place operation's result, where it is higher than what it is to be written to."""
    if target.dtype not in _KINDS[:-1]:
        return None
    base, kinds = _base(op).strip("_"), [other.dtype for other in others]
    if base in _DIVIDING:
        rounded = isinstance(node, ast.Call) and any(word.arg == "rounding_mode" for word in node.keywords)
        kinds += [] if rounded else ["float"]
    elif base in _PROMOTING:
        kinds += map(_of_number, _operands(node))
    else:
        return None
    highest = max((_KINDS.index(kind) for kind in kinds if kind), default=0)
    return _KINDS[highest] if highest > _KINDS.index(target.dtype) else None


def _base(op: ops.Op) -> str:
    return op.name.rpartition(".")[2].rstrip("_")


def _operands(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.AugAssign):
        return [node.value]
    return node.args if isinstance(node, ast.Call) else []


def _of_number(operand: ast.expr) -> str | None:
    number = operand.operand if isinstance(operand, ast.UnaryOp) else operand
    return _OF_NUMBERS.get(type(number.value)) if isinstance(number, ast.Constant) else None
