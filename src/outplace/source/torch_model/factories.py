"""Functions of torch that make a tensor of sizes, numbers or data: `zeros`, `tensor`, `arange`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from outplace.knowledge.traits import factory_kind, has
from outplace.source.torch_model import layouts, shapes
from outplace.source.torch_model.arrays import check_taken_again
from outplace.source.torch_model.tensors import dtype_of, flag, fresh
from outplace.source.values import PLAIN, Args, Const, Items, Keywords, Plain, Tensor, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def make_tensor(interpreter: Interpreter, short: str, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`torch.zeros(...)`, `torch.tensor(...)` and all others that make a tensor of sizes, numbers or data."""
    dtype = dtype_of(keywords) if "dtype" in keywords else _dtype(short, args)
    grad = flag(keywords.get("requires_grad"))
    tensor = fresh(interpreter, grad, dtype, leaf=True)
    tensor.shape = _shape(short, args, keywords)
    tensor.repeats = _repeats(short, args)
    tensor.packed = layouts.of_new(short, args, keywords)
    if has(short, "takes_array") and args:
        source = args[0]
        if isinstance(source, Plain):
            source.storage = source.storage or tensor.storage if source is not PLAIN else None
            tensor.storage = source.storage or tensor.storage
            tensor.certain = source.whole  # of a part it is not known which writes reach it
            tensor.packed = None
            if "dtype" not in keywords:  # another dtype is a copy
                check_taken_again(interpreter, source, tensor, node)
        elif isinstance(source, Tensor):
            return source
    return tensor


def _shape(short: str, args: Args, keywords: Keywords) -> shapes.Shape | None:
    if "size" in keywords and not (short.endswith("_like") and args and isinstance(args[0], Tensor)):
        return shapes.sizes([keywords["size"]])
    if not args:
        return _UNKNOWN_SIZES.get(short)
    if short.endswith("_like") and isinstance(args[0], Tensor):
        return args[0].shape
    if has(short, "variadic"):
        return shapes.sizes(args)
    if short.endswith("Tensor"):  # `torch.Tensor(5)` has five elements, `torch.Tensor([5])` one
        is_data = len(args) == 1 and not isinstance(args[0], Const)
        return shapes.of_literal(args[0]) if is_data else shapes.sizes(args)
    if short in _SIZES_AT and isinstance(args[_SIZES_AT[short]], Items):
        return shapes.sizes([args[_SIZES_AT[short]]])
    if has(short, "from_data"):
        return shapes.of_literal(args[0])
    if short in ("arange", "randperm") and len(args) == 1:
        end = args[0].value if isinstance(args[0], Const) else None
        return (int(end) if isinstance(end, (int, float)) else None,)
    return _of_eye(args) if short == "eye" else _UNKNOWN_SIZES.get(short)


def _of_eye(args: Args) -> shapes.Shape:
    numbers = shapes.sizes(args[:2]) or (None,)
    return (numbers[0], numbers[-1])


_SIZES_AT = {"full": 0, "normal": 0, "randint": -1}
"""Where the sizes stand that are given as one argument."""
_UNKNOWN_SIZES: dict[str, shapes.Shape] = {"arange": (None,), "randperm": (None,)}


def _repeats(short: str, args: Args) -> bool | None:
    """As an index: does it name a place twice?"""
    if args and (has(short, "from_data") or short == "LongTensor"):
        numbers = list(_constants(args[0]))
        return len(set(numbers)) < len(numbers) and not any(isinstance(number, bool) for number in numbers)
    return None if has(short, "random") and factory_kind(short) == "int" and short != "randperm" else False


def _dtype(short: str, args: Args) -> str | None:
    if short == "full" and len(args) > 1 and isinstance(args[1], Const):
        return "float" if isinstance(args[1].value, float) else None
    if short == "arange":
        whole = all(isinstance(arg, Const) and isinstance(arg.value, int) for arg in args)
        return "int" if whole else None
    if args and has(short, "from_data"):
        return _of_numbers(list(_constants(args[0]))) if _is_literal(args[0]) else None
    if short.endswith("_like") and args and isinstance(args[0], Tensor):
        return args[0].dtype
    return factory_kind(short)


def _of_numbers(numbers: list[Any]) -> str | None:
    """The kind of a tensor of these numbers."""
    types = set(map(type, numbers))
    if types and types <= {bool, int}:
        return "int" if int in types else "bool"
    return "complex" if complex in types else "float" if float in types else None


def _is_literal(value: Value) -> bool:
    """Is it made of numbers alone, all of them known?"""
    if isinstance(value, Items):
        return value.rest is None and all(map(_is_literal, value.items))
    return isinstance(value, Const)


def _constants(value: Value) -> Iterator[Any]:
    if isinstance(value, Const):
        yield value.value
    elif isinstance(value, Items):
        for item in value.items:
            yield from _constants(item)
