"""The tensors that an operation returns: new ones, and views of its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outplace.knowledge.traits import has
from outplace.source.graph import Node
from outplace.source.overlaps import RESHAPED, Region
from outplace.source.torch_model import dtypes, layouts, regions, shapes
from outplace.source.torch_model.op_calls import OpCall
from outplace.source.torch_model.saving import record, result_grad, saved_result
from outplace.source.torch_model.tensors import fresh
from outplace.source.values import Const, Items, Tensor, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def new_results(interpreter: Interpreter, call: OpCall) -> Value:
    """What an operation returns that writes nothing."""
    grad = result_grad(interpreter, call)
    graph_node = record(interpreter, call, grad)
    numbers = _numbers({out for out, *_ in call.effect.shares} | set(call.effect.results))
    outputs = [_result(interpreter, call, number, graph_node, grad) for number in numbers]
    if numbers == ["0"]:
        return outputs[0]
    if numbers == ["*"]:
        siblings = [_sibling(outputs[0]) for _ in range(3)]
        if len(call.inputs) == 1:
            regions.number_parts([outputs[0], *siblings])
        return Items([outputs[0], *siblings], "tuple", rest=outputs[0])
    return Items(list[Value](outputs), "tuple")


def _result(interpreter: Interpreter, call: OpCall, number: str, made: Node | None, grad: bool | None) -> Tensor:
    """One of the outputs. `made` is the node of the operation."""
    result = _shared_result(interpreter, call, number) or fresh(interpreter)
    if not (result.view is None and result.leaf):
        result.requires_grad = grad if result.view != "detached" else False
        result.node = made if result.view != "detached" else None
        result.since = interpreter.tape.tick()
    result.dtype = dtypes.of_result(call.op, call.inputs, call.args, call.keywords)
    if result.dtype in ("int", "bool"):
        result.requires_grad, result.node = False, None
    result.known = True
    if result.view is None or result is not call.first_tensor():
        _lay_out(interpreter, result, number, call)
    if made is None:
        return result
    saved = call.effect.results.get(number, call.effect.results.get("*", False))
    if saved is not False and not (has(call.op.name, "keeps_loss_of_samples") and not _hands_out_samples(call)):
        made.saves.append(saved_result(interpreter, result, bool(saved)))
    if result.view is None:
        made.outputs.append(result.storage)
        result.family.grad = grad
    return result


def _hands_out_samples(call: OpCall) -> bool:
    if call.layer is not None:
        return call.layer.options.get("reduction", "mean") not in ("mean", "sum")
    reduction = call.keywords.get("reduction", call.args[5] if len(call.args) > 5 else Const("mean"))
    return not (isinstance(reduction, Const) and reduction.value in ("mean", "sum"))


def _lay_out(interpreter: Interpreter, result: Tensor, number: str, call: OpCall) -> None:
    """Its shape, and how it lies in memory."""
    op, args, keywords, source = call.op, call.args, call.keywords, call.first_tensor()
    if number == "*":
        name = op.name.rpartition(".")[2]
        result.shape = shapes.parts_shape(source.shape, name, args, keywords) if source is not None else None
    else:
        result.shape = shapes.result_shape(op.name, args, keywords, call.layer) if number == "0" else None
    if source is not None and result.storage is source.storage:
        result.packed = layouts.of_view(op.name, source)
    else:
        arguments = [value for value in (*args, *keywords.values()) if isinstance(value, Tensor)]
        turned = layouts.is_turned_product(op.name, args)
        result.packed = False if turned else layouts.of_result(op.name, arguments)
    if interpreter.reordered:
        result.packed = result.packed and None
    if op.expanded and source is not None:
        result.expanded = shapes.is_expanded(source.shape, result.shape) is not False
        result.repeated = shapes.repeated(source.shape, result.shape)
    else:
        result.expanded = result.expanded and not layouts.copies_unless_packed(op.name)


def _numbers(numbers: set[str]) -> list[str]:
    """Which outputs there are: "*" stands for any number of like ones."""
    if "*" in numbers:
        return ["*"]
    highest = max((int(number) for number in numbers if number.isdigit()), default=0)
    return [str(number) for number in range(highest + 1)]


def _sibling(value: Tensor) -> Tensor:
    other = Tensor(value.storage, value.requires_grad, value.node, dtype=value.dtype, of=value)
    other.since, other.view, other.region = value.since, value.view, None
    other.certain, other.anchor, other.parts = value.certain, value.anchor, value.parts
    other.shape, other.packed, other.view_sure = value.shape, value.packed, value.view_sure
    return other


def _shared_result(interpreter: Interpreter, call: OpCall, number: str) -> Tensor | None:
    """The output as a view, or the same object, of an argument."""
    op_name = call.op.name
    for out, key, how, sure in call.effect.shares:
        source = call.argument(key)
        if out not in (number, "*") or not isinstance(source, Tensor):
            continue
        if layouts.copies_unless_packed(op_name) and not interpreter.reordered:
            wanted = shapes.result_shape(op_name, call.args, call.keywords, call.layer)
            splits = not has(op_name, "keeps_shape") and layouts.only_splits(source.shape, wanted)
            sure = sure or bool(source.packed) or splits
        if how == "same" and sure:
            return source
        result = Tensor(source.storage, dtype=source.dtype, of=source if how not in ("detached", "untracked") else None)
        result.certain, result.anchor = source.certain and bool(sure), source.anchor if sure else object()
        result.view = _view_kind(interpreter, how, source)
        result.view_sure = bool(sure) and (result.view != source.view or source.view_sure)
        result.expanded = source.expanded
        result.untracked = how == "untracked" or source.untracked
        result.inference = source.inference
        result.gradient = source.gradient
        result.region, result.parts = _region(op_name, how, source), source.parts
        return result
    return None


def _region(op_name: str, how: str, source: Tensor) -> Region | None:
    if layouts.turns(op_name):
        return regions.turned(source)
    if how in ("detached", "untracked"):
        return source.region
    return (RESHAPED,) if source.region == () and layouts.keeps_order(op_name) else None


def _view_kind(interpreter: Interpreter, how: str, source: Tensor) -> str:
    if how in ("detached", "untracked"):
        return "detached"
    if source.view in ("multi", "nograd", "custom"):
        return source.view
    if how == "multi":
        return "multi"
    return "nograd" if interpreter.grad in ("off", "inference") else "view"
