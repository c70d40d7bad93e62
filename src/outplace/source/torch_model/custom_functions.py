"""Custom autograd Functions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from outplace.knowledge.silent_rules.gradients import BACKWARD_WRITES_GRADIENT
from outplace.source.graph import Node, Save
from outplace.source.torch_model.layers import CONTAINERS
from outplace.source.torch_model.modules import init_container
from outplace.source.torch_model.tensors import any_grad, depend_on, fresh, tensors_in
from outplace.source.values import NONE, UNKNOWN, Args, Class, Function, Instance, Items, Keywords, Tensor, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def class_method(
    interpreter: Interpreter, cls: Class, name: str, args: Args, keywords: Keywords, node: ast.AST
) -> Value | None:
    """A method that torch gives to a class, such as `Function.apply`."""
    if name == "apply" and (cls.torch_base() or "").startswith("torch.autograd"):
        return _apply_function(interpreter, cls, args, keywords, node)
    if name == "__init__" and args and isinstance(args[0], Instance):
        base = cls.torch_base()
        if base in CONTAINERS:
            init_container(args[0], base, args[1:])
        return NONE
    return None


def context_method(context: Instance, name: str, args: Args) -> Value:
    """`ctx.save_for_backward` and `ctx.mark_dirty`."""
    if name == "save_for_backward":
        context.names["saved_tensors"] = Items(list(args), "tuple")
    elif name == "mark_dirty":
        context.names["dirty"] = Items(list(args), "tuple")
    return NONE


def _apply_function(interpreter: Interpreter, cls: Class, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`MyFunction.apply(x)`: forward runs without grad; what it saves is kept by one node."""
    forward = cls.find("forward")
    if not isinstance(forward, Function):
        return UNKNOWN
    context = Instance(cls)
    context.names["saved_tensors"] = Items([], "tuple")
    mode, interpreter.grad = interpreter.grad, "off" if interpreter.grad == "on" else interpreter.grad
    known = {id(tensor.storage) for value in args for tensor in tensors_in(value)}
    begun = interpreter.tape.tick()
    around, interpreter.tape.in_function = interpreter.tape.in_function, True
    result = _run_forward(interpreter, forward, cls.find("setup_context"), context, args, keywords, node)
    interpreter.grad, interpreter.tape.in_function = mode, around
    inputs = [tensor for value in args for tensor in tensors_in(value)]
    grad = False if mode in ("off", "inference") else any_grad(inputs)
    recorded = None
    if grad:
        recorded = interpreter.record(f"{cls.node.name}Backward", node)
        depend_on(recorded, inputs)
        recorded.backward = _backward(interpreter, cls, context, result, node)
        recorded.saves.extend(_saves(context, recorded.time))
        if "dirty" not in context.names:
            writes = [write for tensor in inputs for write in tensor.storage.writes if write.time > begun]
            interpreter.tape.undeclared.update((write.time, recorded) for write in writes)
    return _function_results(interpreter, result, recorded, grad, known)


def _run_forward(
    interpreter: Interpreter,
    forward: Function,
    setup: Value | None,
    context: Instance,
    args: Args,
    keywords: Keywords,
    node: ast.AST,
) -> Value:
    """With `setup_context` forward gets no `ctx`."""
    result = interpreter.call_function(forward, [context, *args] if setup is None else args, keywords, node)
    if isinstance(setup, Function):
        interpreter.call_function(setup, [context, Items(list(args), "tuple"), result], {}, node)
    return result


def _saves(context: Instance, time: int) -> Iterator[Save]:
    """What the node saves: what was given to `save_for_backward`, and what is an attribute of `ctx`."""
    for place, tensor in enumerate(tensors_in(context.names["saved_tensors"])):
        label = f"saved_tensors[{place}]"
        yield Save(tensor.storage, time, label, tensor.certain, tensor.parameter, tensor.anchor, tensor)
    for name, value in context.names.items():
        if name != "saved_tensors" and isinstance(value, Tensor):  # kept past PyTorch's check
            yield Save(value.storage, time, "ctx", value.certain, itself=value)


def _backward(
    interpreter: Interpreter, cls: Class, context: Instance, made: Value, node: ast.AST
) -> Callable[[], None] | None:
    """Its own backward, which may write what it has saved."""
    function = cls.find("backward")
    if not isinstance(function, Function):
        return None

    def run() -> None:
        mode, interpreter.grad = interpreter.grad, "off"
        count = len(made.items) if isinstance(made, Items) else 1
        gradients = [fresh(interpreter) for _ in range(count)]
        for gradient in gradients:
            gradient.gradient = BACKWARD_WRITES_GRADIENT, False
        interpreter.call_function(function, [context, *gradients], {}, node)
        interpreter.grad = mode

    return run


def _function_results(
    interpreter: Interpreter, made: Value, node: Node | None, grad: bool | None, inputs: set[int]
) -> Value:
    if isinstance(made, Items):
        return Items(
            [_function_results(interpreter, item, node, grad, inputs) for item in made.items], made.kind, made.rest
        )
    if not isinstance(made, Tensor):
        return made
    result = Tensor(made.storage, grad, node, dtype=made.dtype)  # a family of its own: its history is the Function
    result.since, result.certain = interpreter.tape.tick(), made.certain
    result.shape, result.packed = made.shape, made.packed
    if grad and (made.view in ("view", "multi", "nograd") or id(made.storage) in inputs):
        result.view = "custom"
    return result
