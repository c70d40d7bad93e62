"""Data loaders: the batches that they make of what a dataset hands out."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from outplace.source import python_model
from outplace.source.torch_model.tensors import fresh, requires_grad
from outplace.source.values import (
    NONE,
    UNKNOWN,
    Const,
    Dictionary,
    Function,
    Instance,
    Items,
    Plain,
    Tensor,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def make_loader(interpreter: Interpreter, args: list[Value], keywords: dict[str, Value], node: ast.AST) -> Value:
    """`DataLoader(dataset)`: goes through batches, of which none is that of the round before."""
    given = args[0] if args else keywords.get("dataset", UNKNOWN)
    if isinstance(given, Items) and given.kind == "tuple" and given.items:
        batch: Value = Items([_batch_of(interpreter, column, whole=True) for column in given.items], "tuple")
    elif isinstance(given, Instance):
        sample = _sample(interpreter, given, node)
        collate = keywords.get("collate_fn", NONE)
        if collate is NONE or (isinstance(collate, Const) and collate.value is None):
            batch = _batch_of(interpreter, sample)
        else:
            batch = interpreter.call(collate, [Items([sample], rest=sample)], {}, node)
    else:
        return UNKNOWN
    return UNKNOWN if isinstance(batch, Unknown) else Items([], rest=batch)


def _sample(interpreter: Interpreter, dataset: Instance, node: ast.AST) -> Value:
    """What `dataset[i]` gives, or the first that it yields."""
    getter = dataset.cls.find("__getitem__")
    if isinstance(getter, Function):
        return interpreter.call_function(getter, [dataset, Plain()], {}, node)
    if isinstance(dataset.cls.find("__iter__"), Function):
        return next(iter(python_model.iterate(interpreter, dataset, node, most=1, least=1)), UNKNOWN)
    return UNKNOWN


def _batch_of(interpreter: Interpreter, sample: Value, whole: bool = False) -> Value:
    """Samples put together as a loader does it by itself; `whole`: of a tensor that holds all of them."""
    if isinstance(sample, Tensor):
        made = fresh(interpreter, requires_grad(sample), sample.dtype)
        if sample.shape is not None:
            made.shape = (None, *(sample.shape[1:] if whole else sample.shape))
        made.packed, made.known = True, sample.known
        return made
    if isinstance(sample, Const) and isinstance(sample.value, (bool, int, float)):
        made = fresh(interpreter, False, "float" if isinstance(sample.value, float) else "int")
        made.shape, made.packed = (None,), True
        return made
    if isinstance(sample, Items) and sample.items and sample.rest is None:
        return Items([_batch_of(interpreter, item) for item in sample.items], "list")
    if isinstance(sample, Dictionary):
        return Dictionary({key: _batch_of(interpreter, item) for key, item in sample.items.items()})
    return Unknown()
