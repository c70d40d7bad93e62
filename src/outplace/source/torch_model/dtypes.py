"""Kinds of dtype: "bool", "int", "float", "complex". Each can hold the values of those before it; None if not known."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from outplace.knowledge import ops
from outplace.knowledge.traits import KINDS, always_kind, has, result_kind
from outplace.source.torch_model.tensors import dtype_of
from outplace.source.values import Args, Const, Keywords, Tensor, Torch, Unknown

_OF_NUMBERS = {bool: "bool", int: "int", float: "float", complex: "complex"}


def of_result(op: ops.Op, inputs: list[Tensor], args: Args, keywords: Keywords) -> str | None:
    """The kind of what an operation gives."""
    fixed = always_kind(op.name)
    if fixed in ("bool", "int"):
        return fixed
    if "dtype" in keywords or has(op.name, "dtype_by_argument") or any(isinstance(value, Torch) for value in args):
        return dtype_of(keywords)  # `x.view(torch.uint8)`, `x.sum(dtype=torch.float32)`
    return _promoted(op, fixed, {tensor.dtype for tensor in inputs}, args, keywords)


def _promoted(op: ops.Op, fixed: str | None, kinds: set[str | None], args: Args, keywords: Keywords) -> str | None:
    """The kind that the arguments lead to. `kinds` are those of the tensors among them."""
    numbers = {type(value.value) for value in (*args, *keywords.values()) if isinstance(value, Const)}
    if fixed == "complex" or "complex" in kinds:
        return fixed or result_kind(op.name, "complex") or "complex"
    if _promotes(op.name) and complex in numbers:
        return "complex"
    if None not in kinds and _is_float_only(op.name):
        return "float"
    if kinds <= {"int", "bool"}:
        return _of_integers(op.name, kinds, numbers, args)
    if _promotes(op.name) and any(not isinstance(value, Tensor) for value in args):
        return _with_numbers(kinds, numbers, args)
    return _of_tensors(kinds)


def _with_numbers(kinds: set[str | None], numbers: set[type], args: Args) -> str | None:
    """The kind that tensors and numbers are promoted to."""
    if float in numbers:
        return "float"
    if any(isinstance(value, Unknown) for value in args):
        return None
    if not all(isinstance(value, (Tensor, Const)) for value in args):
        return "float" if kinds == {"float"} else None
    return _of_tensors(kinds)


def _of_tensors(kinds: set[str | None]) -> str | None:
    """The kind that all have, else float if one of them is."""
    return next(iter(kinds)) if len(kinds) == 1 else "float" if "float" in kinds else None


def _is_float_only(name: str) -> bool:
    """Does it give floats of integers as well: `sqrt`, `sigmoid`?"""
    return result_kind(name, "int") == result_kind(name, "float") == "float"


def _promotes(name: str) -> bool:
    """Is its result of the highest kind of its operands, numbers among them?"""
    numbers_count = has(name, "broadcasts") and not name.startswith("masked_")
    return numbers_count and result_kind(name, "int") == "int" and result_kind(name, "float") == "float"


def _of_integers(name: str, kinds: set[str | None], numbers: set[type], args: Args) -> str | None:
    promotes = _promotes(name)
    if promotes and float in numbers:
        return "float"
    known = all(isinstance(value, (Tensor, Const)) for value in args) or not promotes
    if len(kinds) != 1 or not known or numbers & {float, complex}:
        return None
    (kind,) = kinds
    if promotes and kind == "bool" and int in numbers:
        return "int"
    return result_kind(name, kind) if kind is not None else None


def common(tensors: Iterable[Tensor]) -> str | None:
    """The kind that all of them have."""
    kinds = {tensor.dtype for tensor in tensors}
    return kinds.pop() if len(kinds) == 1 else None


def excess(target: Tensor, op: ops.Op, others: Iterable[Tensor], node: ast.AST) -> str | None:
    """The kind of an in-place operation's result, where it is higher than what it is to be written to."""
    if target.dtype not in KINDS[:-1]:
        return None
    base, kinds = op.name.rpartition(".")[2].rstrip("_"), [other.dtype for other in others]
    if _divides(base):
        rounded = isinstance(node, ast.Call) and any(word.arg == "rounding_mode" for word in node.keywords)
        kinds += [] if rounded else ["float"]
    elif _is_float_only(base):
        kinds += ["float"]
    elif _promotes(base):
        kinds += map(_of_number, _operands(node))
    else:
        return None
    highest = max((KINDS.index(kind) for kind in kinds if kind), default=0)
    return KINDS[highest] if highest > KINDS.index(target.dtype) else None


def _divides(base: str) -> bool:
    """Is it a division, whose result is a float unless it is rounded?"""
    plain = ops.lookup(base)
    return plain is not None and "DivBackward0" in plain.nodes


def _operands(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.AugAssign):
        return [node.value]
    return node.args if isinstance(node, ast.Call) else []


def _of_number(operand: ast.expr) -> str | None:
    number = operand.operand if isinstance(operand, ast.UnaryOp) else operand
    return _OF_NUMBERS.get(type(number.value)) if isinstance(number, ast.Constant) else None
