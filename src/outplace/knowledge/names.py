"""The many spellings of an operation, and the op table's name for it."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

SYMBOLS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
"""Python's operators as they are written."""

DUNDERS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "lshift",
    ast.RShift: "rshift",
}  # fmt: skip
"""The middle of their methods' names: `__add__`, `__radd__`, `__iadd__`."""

AUGMENTED = {
    "+=": "add_",
    "-=": "sub_",
    "*=": "mul_",
    "/=": "div_",
    "//=": "floor_divide_",
    "%=": "remainder_",
    "**=": "pow_",
    "&=": "bitwise_and_",
    "|=": "bitwise_or_",
    "^=": "bitwise_xor_",
    "<<=": "bitwise_left_shift_",
    ">>=": "bitwise_right_shift_",
}

REFLECTED = {"sub": "rsub", "div": "__rdiv__", "pow": "__rpow__"}
"""Operations that are not the same the other way round, and what `2 - x` is for a tensor on the right."""

OPERATORS = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "//": "floor_divide",
    "%": "remainder",
    "**": "pow",
    "@": "matmul",
    "@=": "matmul",  # `a @= b` rebinds: tensors have no __imatmul__
    "&": "bitwise_and",
    "|": "bitwise_or",
    "^": "bitwise_xor",
    "~": "bitwise_not",
    "<<": "bitwise_left_shift",
    ">>": "bitwise_right_shift",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
    "==": "eq",
    "!=": "ne",
    "[]": "__getitem__",
    "getitem": "__getitem__",
    "x[i]": "__getitem__",
    "index": "__getitem__",
    "setitem": "__setitem__",
    "[]=": "__setitem__",
    "x[i] = v": "__setitem__",
    "x[i]=v": "__setitem__",
}

_DUNDERS = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "div": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "pow",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
    "neg": "neg",
    "abs": "abs",
    "invert": "bitwise_not",
    "lt": "lt",
    "le": "le",
    "gt": "gt",
    "ge": "ge",
    "eq": "eq",
    "ne": "ne",
    "iter": "iter",
}

_SPELLINGS = {
    "conv": "nn.functional.conv2d",
    "conv_transpose": "nn.functional.conv_transpose2d",
    "log_sigmoid": "nn.functional.logsigmoid",
    "nn.functional.sigmoid": "sigmoid",
    "nn.functional.tanh": "tanh",
    "nn.functional.upsample": "nn.functional.interpolate",
}

_NAMESPACES = ("", "nn.functional.", "nn.", "linalg.", "special.", "fft.")


@lru_cache(4096)
def spellings(name: str) -> tuple[str, ...]:
    """The table's names that `name` may stand for, the likeliest first. No table is consulted."""
    text = name.strip()
    if text in AUGMENTED:
        return (AUGMENTED[text],)
    if text in OPERATORS:
        return (OPERATORS[text],)
    if re.fullmatch(r"\w+\s*\[.*\]\s*=[^=].*", text):
        return ("__setitem__",)
    if re.fullmatch(r"\w+\s*\[.*\]", text):
        return ("__getitem__",)
    text = re.sub(r"\(.*\)$", "", text)
    text = re.sub(r"^(torch\.)?(Tensor|nn\.parameter\.Parameter|_C\._nn|_VF|functional)\.", "", text)
    text = re.sub(r"^(torch|th)\.(?=\w)", "", text)
    text = re.sub(r"^(F|functional)\.", "nn.functional.", text)
    text = re.sub(r"^nn\.modules\.\w+\.", "nn.", text)
    text = text.lstrip(".")
    if dunder := re.fullmatch(r"__([a-z]+)__", text):
        inner = dunder[1]
        if inner in _DUNDERS:
            return (_DUNDERS[inner],)
        if inner[:1] == "i" and inner[1:] in _DUNDERS:
            return (_DUNDERS[inner[1:]] + ("" if inner == "imatmul" else "_"),)
        if inner[:1] == "r" and inner[1:] in _DUNDERS:
            return (_DUNDERS[inner[1:]],)
    found = (_SPELLINGS[text],) if text in _SPELLINGS else ()
    owner, _, last = text.rpartition(".")
    if not owner:
        return (*found, *(prefix + text for prefix in _NAMESPACES))
    return (*found, text, *((last,) if owner == "nn.functional" else ()))


def asks_in_place(name: str) -> bool:
    """Whether the spelling itself says so: `F.relu(x, inplace=True)`."""
    return re.search(r"inplace\s*=\s*True", name) is not None
