"""Data loaders: the batches they make of a dataset's samples."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from outplace.knowledge.derivatives import changes_again
from outplace.knowledge.silent_rules.two_names import DATASET_SAMPLE_WRITTEN
from outplace.source.graph import Hit, Storage, Write, replaces
from outplace.source.torch_model.tensors import fresh, requires_grad, tensors_in
from outplace.source.values import (
    NONE,
    UNKNOWN,
    Args,
    Const,
    Dictionary,
    Function,
    Instance,
    Items,
    Keywords,
    Tensor,
    Unknown,
    Value,
    is_none,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def make_loader(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`DataLoader(dataset)`: goes through batches, of which none is that of the round before."""
    argument = args[0] if args else keywords.get("dataset", UNKNOWN)
    size, collate = keywords.get("batch_size", args[1] if len(args) > 1 else Const(1)), keywords.get("collate_fn", NONE)
    if is_none(size) or "batch_sampler" in keywords or len(args) > 2:
        return UNKNOWN
    if isinstance(argument, Items) and not is_none(collate):
        return UNKNOWN
    if isinstance(argument, Items) and argument.kind == "tuple" and argument.items:
        batch: Value = Items([_batch_of(interpreter, column, whole=True) for column in argument.items], "tuple")
    elif isinstance(argument, Instance):
        sample = _sample(interpreter, argument, node)
        if is_none(collate):
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
        return _fetched_twice(interpreter, dataset, getter, node)
    if isinstance(dataset.cls.find("__iter__"), Function):
        return next(iter(interpreter.iterate(dataset, node, most=1, least=1)), UNKNOWN)
    return UNKNOWN


def _fetched_twice(interpreter: Interpreter, dataset: Instance, getter: Function, node: ast.AST) -> Value:
    """The first sample; and is it a tensor of the dataset's own, which each fetch scales in place?"""
    tape, begin = interpreter.tape, interpreter.tape.tick()
    written: list[list[tuple[Storage, Write]]] = []
    sample: Value = UNKNOWN
    around = tape.noticed_writes
    for _ in range(2):
        tape.noticed_writes = []
        written.append(tape.noticed_writes)
        try:
            sample = interpreter.call_function(getter, [dataset, Const(0)], {}, node)
        finally:
            tape.noticed_writes = around
        for tensor in tensors_in(sample):
            if tensor.storage.read is not None:
                tensor.storage.read = tape.tick()  # by the loader
    own = {id(value.storage) for value in dataset.names.values() if isinstance(value, Tensor)}
    first = {(id(storage), id(write.place.node)) for storage, write in written[0]}
    renewed = {id(storage) for storage, write in written[1] if replaces(write.operation) and not _scales(write)}
    for storage, write in written[1]:
        again = storage.made < begin and (id(storage), id(write.place.node)) in first and id(storage) not in renewed
        of_all = id(storage) in own and write.region == ()  # `self.noise *= 0.99` is no sample
        if again and _scales(write) and not of_all and not _is_guarded(write):
            tape.hits.append(Hit.silent(DATASET_SAMPLE_WRITTEN, write, write.place, False))
    return sample


def _scales(write: Write) -> bool:
    node = write.place.node
    if isinstance(node, ast.AugAssign):  # the second half of `x[i] *= 2` is an item assignment
        return not isinstance(node.op, ast.Add)
    return changes_again(write.operation)


def _is_guarded(write: Write) -> bool:
    """Does it stand behind a condition, which may be that it has not been done yet?"""
    tree = write.place.module.tree
    conditions = (node for node in ast.walk(tree) if isinstance(node, ast.If | ast.IfExp)) if tree is not None else ()
    return any(node is write.place.node for condition in conditions for node in ast.walk(condition))


def _batch_of(interpreter: Interpreter, sample: Value, whole: bool = False) -> Value:
    """Samples put together as a loader does it by itself; `whole`: of a tensor that holds all of them."""
    if isinstance(sample, Tensor):
        tensor = fresh(interpreter, requires_grad(sample), sample.dtype)
        if sample.shape is not None:
            tensor.shape = (None, *(sample.shape[1:] if whole else sample.shape))
        tensor.packed, tensor.known = True, sample.known
        return tensor
    if isinstance(sample, Const) and isinstance(sample.value, (bool, int, float)):
        tensor = fresh(interpreter, False, {bool: "bool", int: "int", float: "float"}[type(sample.value)])
        tensor.shape, tensor.packed = (None,), True
        return tensor
    if isinstance(sample, Items) and sample.items and sample.rest is None:
        return Items([_batch_of(interpreter, item) for item in sample.items], "list")
    if isinstance(sample, Dictionary):
        return Dictionary({key: _batch_of(interpreter, item) for key, item in sample.items.items()})
    return Unknown()
