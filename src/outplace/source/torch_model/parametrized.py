"""Weights that are computed from other parameters at each use: weight norm, `register_parametrization`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from outplace.knowledge.silent_rules.lost import PARAMETRIZED_WEIGHT_WRITE
from outplace.knowledge.written import attribute_of
from outplace.source.graph import Node, Save, compatible
from outplace.source.joins import options
from outplace.source.torch_model.tensors import fresh, requires_grad, tensors_in
from outplace.source.values import UNKNOWN, Args, Const, Keywords, Layer, Tensor, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def normalize(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`weight_norm(layer)` and the like: the weight is computed in each forward, and at each reading."""
    name = args[1] if len(args) > 1 else keywords.get("name", Const("weight"))
    for layer in options(args[0]) if args else ():
        if isinstance(layer, Layer) and isinstance(name, Const) and name.value in layer.state:
            layer.recomputed[name.value] = interpreter.tape.path
    return normalize_in_place(interpreter, args, keywords, node)


def normalize_in_place(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`torch.nn.utils.spectral_norm(layer)`: up to the first forward its weight lies in the memory of the parameter."""
    for layer in options(args[0]) if args else ():
        if isinstance(layer, Layer):
            layer.parametrized = True
    return args[0] if args else UNKNOWN


def register(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`parametrize.register_parametrization(layer, "weight", module)`."""
    arguments = dict(zip(("module", "tensor_name", "parametrization"), args, strict=False)) | keywords
    name, parametrization = arguments.get("tensor_name"), arguments.get("parametrization")
    for layer in options(arguments.get("module", UNKNOWN)):
        if (
            isinstance(layer, Layer)
            and isinstance(name, Const)
            and name.value in layer.state
            and parametrization is not None
        ):
            layer.computed.setdefault(name.value, []).append(parametrization)
            layer.recomputed[name.value] = interpreter.tape.path
    return arguments.get("module", UNKNOWN)


def remove(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`remove_weight_norm(layer)`, `remove_parametrizations(layer, "weight")`: a parameter again."""
    for layer in options(args[0]) if args else ():
        if isinstance(layer, Layer):
            layer.recomputed, layer.computed, layer.parametrized = {}, {}, False
    return args[0] if args else UNKNOWN


def read_parameter(interpreter: Interpreter, layer: Layer, name: str, node: ast.AST) -> Tensor:
    """`layer.weight`, after what it goes through."""
    value: Value = layer.state[name]
    for parametrization in layer.computed.get(name, ()):
        value = interpreter.call(parametrization, [value], {}, node)
    found = value if isinstance(value, Tensor) else layer.state[name]
    way = layer.recomputed.get(name)
    if way is not None and compatible(way, interpreter.tape.path):
        found = found if found.storage is not layer.state[name].storage else _computed(interpreter, layer, name, node)
        found.storage.recomputed = way
    return found


def _computed(interpreter: Interpreter, layer: Layer, name: str, node: ast.AST) -> Tensor:
    own = layer.state[name]
    tensor = fresh(interpreter, False if interpreter.grad in ("off", "inference") else own.requires_grad, own.dtype)
    tensor.shape, tensor.certain, tensor.known = own.shape, own.certain, own.known
    if tensor.requires_grad:
        tensor.node = _node(interpreter, layer, node)
    return tensor


def computed_weight(interpreter: Interpreter, layer: Layer, made: Value, node: ast.AST) -> None:
    """The weight of a parametrized layer is computed from parameters, which are kept for that."""
    weight = _node(interpreter, layer, node)
    for tensor in tensors_in(made):
        if tensor.node is not None:
            tensor.node.inputs.append(weight)


def _node(interpreter: Interpreter, layer: Layer, node: ast.AST) -> Node:
    kept = [tensor for name, tensor in layer.state.items() if "bias" not in name and requires_grad(tensor)]
    weight = interpreter.record("parametrization", node)
    weight.leaves = list(kept)
    weight.saves = [Save(tensor.storage, weight.time, "weight", tensor.certain, True) for tensor in kept]
    return weight


def check_remade(interpreter: Interpreter, written: Value, expression: ast.expr, node: ast.AST) -> None:
    """`layer.weight.data.normal_()` of a weight that is computed: the result of one reading is written, and gone.

    What has a name may be used afterwards.
    """
    way = written.storage.recomputed if isinstance(written, Tensor) else None
    if isinstance(written, Tensor) and way is not None and attribute_of(expression) is not None:
        sure = written.certain and written.known and set(way) <= set(interpreter.tape.path)
        interpreter.hit_silent(PARAMETRIZED_WEIGHT_WRITE, node, sure)
