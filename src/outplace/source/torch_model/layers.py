"""The modules of torch.nn."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from outplace.knowledge.ops import Op
from outplace.knowledge.traits import has, idle_in_evaluation, inplace_position
from outplace.source import contents
from outplace.source.torch_model.op_calls import find_op
from outplace.source.torch_model.operations import run_op
from outplace.source.torch_model.parametrized import computed_weight, read_parameter
from outplace.source.torch_model.tensors import fresh, node_of, parameter, requires_grad, tensors_in
from outplace.source.values import (
    UNKNOWN,
    Args,
    Choice,
    Const,
    Dictionary,
    Instance,
    Items,
    Keywords,
    Layer,
    Tensor,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter

CONTAINERS = {"torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict", "torch.nn.ParameterList",
               "torch.nn.ParameterDict"}  # fmt: skip


def make_layer(interpreter: Interpreter, name: str, args: Args, keywords: Keywords) -> Value:
    """`nn.Linear(...)` and its kin."""
    if name in CONTAINERS:
        layer = Layer(name, {})
        fill_container(layer, args)
        return layer
    if name == "torch.nn.Module":
        return Layer(name, {})
    kind = f"nn.{name.rpartition('.')[2]}"
    op = find_op(kind)
    if op is None:
        return UNKNOWN
    layer = Layer(kind, _options(kind, args, keywords))
    layer.sizes = (_number(args, keywords, 0, _IN), _number(args, keywords, 1, _OUT))
    _make_state(interpreter, layer, op)
    return layer


def _options(kind: str, args: Args, keywords: Keywords) -> dict[str, Any]:
    """The options of a module that are known: those given by name, the rate of dropout, and `inplace`."""
    found = {key: value.value for key, value in keywords.items() if isinstance(value, Const)}
    if idle_in_evaluation(kind):
        rate = args[0] if args else keywords.get("p", Const(0.5))
        found["p"] = rate.value if isinstance(rate, Const) else None
    position = inplace_position(kind)
    inplace = keywords.get("inplace")
    if inplace is None and position is not None and position < len(args):
        inplace = args[position]
    if inplace is not None:
        found["inplace"] = contents.truth(inplace)
    return found


def _make_state(interpreter: Interpreter, layer: Layer, op: Op) -> None:
    """The parameters and buffers of a module."""
    kind, arguments = layer.kind, layer.options
    for name in op.state:
        if not (name == "bias" and arguments.get("bias") is False):
            is_buffer = name.startswith("running_") or name == "num_batches_tracked"
            layer.state[name] = fresh(interpreter, False, "float") if is_buffer else parameter(interpreter)
    if kind.startswith("nn.BatchNorm"):
        layer.state["num_batches_tracked"] = fresh(interpreter, False, "int")
    if kind == "nn.Linear":
        layer.state["weight"].shape = (layer.sizes[1], layer.sizes[0])
    elif kind == "nn.Embedding":
        layer.state["weight"].shape = layer.sizes
    if kind in ("nn.Linear", "nn.Conv1d", "nn.Conv2d", "nn.Conv3d") and "bias" in layer.state:
        layer.state["bias"].shape = (layer.sizes[1],)


_IN = ("in_features", "in_channels", "num_embeddings", "input_size")
_OUT = ("out_features", "out_channels", "embedding_dim", "hidden_size")


def _number(args: Args, keywords: Keywords, place: int, names: tuple[str, ...]) -> int | None:
    argument = next((keywords[name] for name in names if name in keywords), args[place] if place < len(args) else None)
    return argument.value if isinstance(argument, Const) and type(argument.value) is int else None


def fill_container(layer: Layer, args: Args) -> None:
    """The children of Sequential, ModuleList and ModuleDict."""
    source: Value | None = args[0] if args else None
    if isinstance(source, Dictionary):
        layer.children.update({str(key): value for key, value in source.items.items()})
        if source.rest is not None:
            layer.children["*"] = source.rest  # under names that are not known
        return
    items = args
    if layer.kind.endswith("List") or (len(args) == 1 and isinstance(source, Items)):
        items = contents.spread(source) if source is not None else []
    for place, item in enumerate(items):
        layer.children[str(place)] = item


def run_layer(interpreter: Interpreter, layer: Layer, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """Calls a module of torch.nn."""
    args = before_forward(interpreter, layer, args, node) if layer.pre_hooks else args
    if layer.kind == "torch.nn.Sequential":
        value: Value = args[0] if args else UNKNOWN
        for child in layer.children.values():
            interpreter.require_time()
            value = run_child(interpreter, child, value, node)
        return after_forward(interpreter, layer, args, value, node)
    if layer.kind in CONTAINERS or layer.kind == "torch.nn.Module":
        return UNKNOWN
    if args and isinstance(args[0], Unknown):
        args = [_assumed_tensor(interpreter), *args[1:]]
    if args and isinstance(args[0], Tensor):
        args[0].known = True  # a module takes nothing else
    op = find_op(layer.kind)
    in_place = layer.options.get("inplace") is True and op is not None and op.inplace is not None
    name = f"{layer.kind}(inplace=True)" if in_place else layer.kind
    if layer.kind.startswith("nn.Embedding") and layer.options.get("max_norm") is not None:
        interpreter.tape.write(layer.state["weight"], interpreter.place(node), "embedding_renorm_")
    if idle_in_evaluation(layer.kind):
        rate, argument = layer.options["p"], args[0] if args else UNKNOWN
        return run_dropout(
            interpreter, name, argument, UNKNOWN if rate is None else Const(rate), layer.training, node, layer.kind
        )
    result = _run_with_state(interpreter, layer, name, args, keywords, node)
    return after_forward(interpreter, layer, args, result, node)


def run_child(interpreter: Interpreter, child: Value, value: Value, node: ast.AST) -> Value:
    """Runs a child of `nn.Sequential`: one of several, if it was added on some paths only."""
    return interpreter.each(child, lambda one: interpreter.call(one, [value], {}, node))


def _run_with_state(
    interpreter: Interpreter, layer: Layer, name: str, args: Args, keywords: Keywords, node: ast.AST
) -> Value:
    """Runs the operation of a module, with its parameters as they are read now."""
    originals = layer.state
    if layer.computed:
        layer.state = {name_of: read_parameter(interpreter, layer, name_of, node) for name_of in originals}
    result = run_op(interpreter, name, args, keywords, node, layer=layer, label=layer.kind)
    layer.state = originals
    if layer.parametrized and interpreter.grad == "on":
        computed_weight(interpreter, layer, result, node)
    if has(layer.kind, "returns_state"):
        result = interpreter.each(result, lambda option: _with_state(interpreter, layer, option))
        if args and isinstance(args[0], Tensor) and args[0].sequence and isinstance(result, Items):
            for output in tensors_in(result.items[0]):
                output.sequence = True
    return result


def run_dropout(
    interpreter: Interpreter, name: str, given: Value, rate: Value, training: bool | None, node: ast.AST, label: str
) -> Value:
    """Dropout does nothing in evaluation or with p = 0, and then it writes nothing either."""
    if isinstance(given, Choice):
        return interpreter.each(given, lambda one: run_dropout(interpreter, name, one, rate, training, node, label))
    if training is False or (isinstance(rate, Const) and rate.value == 0) or not isinstance(given, Tensor):
        return given
    op = find_op(name)
    if op is None or op.writes is None or (training and isinstance(rate, Const)):
        result = run_op(interpreter, name, [given], {}, node, label=label)
        does_nothing = interpreter.assumes and not isinstance(rate, Const) and _is_kept(given)
        return Choice((result, given)) if does_nothing else result
    perhaps = Tensor(given.storage, given.requires_grad, given.node, dtype=given.dtype, of=given)
    perhaps.certain, perhaps.view_sure, perhaps.anchor = False, False, object()
    perhaps.since, perhaps.view, perhaps.shape = given.since, given.view, given.shape
    run_op(interpreter, name, [perhaps], {}, node, label=label)
    return given


def _is_kept(tensor: Tensor) -> bool:
    """Does the operation that made it keep its result?"""
    node = node_of(tensor)
    return node is not None and any(save.storage is tensor.storage for save in node.saves)


def _assumed_tensor(interpreter: Interpreter) -> Tensor:
    """An argument of a module must be a tensor, whatever it is."""
    tensor = fresh(interpreter, None)
    tensor.certain = False
    return tensor


def _with_state(interpreter: Interpreter, layer: Layer, made: Value) -> Value:
    if layer.kind == "nn.MultiheadAttention":
        return Items([made, UNKNOWN], "tuple") if isinstance(made, Tensor) else made
    first = made.items[0] if isinstance(made, Items) and made.items else made
    if not isinstance(first, Tensor):
        return made
    again = [_like(interpreter, first) for _ in range(2)]
    if layer.kind == "nn.LSTMCell":
        return Items([first, again[0]], "tuple")
    if layer.kind == "nn.LSTM":
        return Items([first, Items([*again], "tuple")], "tuple")
    return Items([first, again[0]], "tuple")


def _like(interpreter: Interpreter, tensor: Tensor) -> Tensor:
    new_tensor = fresh(interpreter, tensor.requires_grad, tensor.dtype)
    new_tensor.node = tensor.node
    return new_tensor


def before_forward(interpreter: Interpreter, module: Layer | Instance, args: Args, node: ast.AST) -> list[Value]:
    """What a module's hooks make of its arguments."""
    for hook in module.pre_hooks:
        returned = interpreter.call(hook, [module, Items(list(args), "tuple")], {}, node)
        if isinstance(returned, Tensor):
            args = [returned, *args[1:]]
        elif isinstance(returned, Items):
            args = list(returned.items)
    return args


def after_forward(interpreter: Interpreter, module: Layer | Instance, args: Args, value: Value, node: ast.AST) -> Value:
    """What a module's hooks make of its output."""
    for hook in (*interpreter.global_hooks, *module.forward_hooks):
        returned = interpreter.call(hook, [module, Items(list(args), "tuple"), value], {}, node)
        if not isinstance(returned, (Const, Unknown)):
            value = returned
    return hooked(interpreter, value, node) if module.hooked else value


def hooked(interpreter: Interpreter, value: Value, node: ast.AST) -> Value:
    """A full backward hook passes the output through a custom Function, which returns it as a view."""
    for tensor in tensors_in(value):
        if requires_grad(tensor):
            view = Tensor(tensor.storage, tensor.requires_grad, node_of(tensor), dtype=tensor.dtype, of=tensor)
            view.view, view.since, view.certain = "custom", interpreter.tape.tick(), tensor.certain
            view.shape, view.packed = tensor.shape, tensor.packed
            if isinstance(value, Tensor):
                return view
    return value


def no_child() -> Layer:
    """What a container holds where another arm of a branch adds a module. It gives back what it gets."""
    return Layer("nn.Identity", {_ABSENT: True})


def is_no_child(value: Value) -> bool:
    """True if a module stands here only on another arm of a branch."""
    return isinstance(value, Layer) and _ABSENT in value.options


_ABSENT = "absent"
