"""Code that a framework calls: a training step, a message function, the right-hand side of an equation."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from outplace.knowledge.frameworks import Framework, framework_of
from outplace.source import torch_model
from outplace.source.class_bases import framework_behind
from outplace.source.python_model.containers import iterate
from outplace.source.values import (
    NONE,
    PLAIN,
    UNKNOWN,
    Args,
    Class,
    Const,
    Dictionary,
    Function,
    Instance,
    Items,
    Keywords,
    Optimizer,
    Outside,
    Tensor,
    Value,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter

_ROUNDS = 2
"""So many training steps are run: the second one meets what the first one has kept."""


def knows_method(cls: Class, name: str) -> bool:
    """Is it a method that objects of the class inherit from a framework, and whose effect is known?"""
    framework = framework_behind(cls)
    return framework is not None and name in (
        framework.trains | framework.backward | framework.optimizers | framework.gathers
    )


def inherited_method(
    interpreter: Interpreter, holder: Instance, name: str, args: Args, keywords: Keywords, node: ast.AST
) -> Value | None:
    """A call of a method that an object inherits from a framework; None if nothing is known of it."""
    framework = framework_behind(holder.cls)
    if framework is None:
        return None
    if name in framework.trains:
        return _train(interpreter, framework, holder, holder.names.get("train_dataset", UNKNOWN), node)
    if name in framework.optimizers:
        return _optimizers(interpreter, framework, holder, node)
    if name in framework.gathers:
        return _gather(interpreter, holder, keywords, node)
    return _backward(interpreter, args, node) if name in framework.backward else None


def call_outside(interpreter: Interpreter, name: str, args: Args, keywords: Keywords, node: ast.AST) -> Value | None:
    """A call of a framework's class, function, or method of its object; None if nothing is known of it."""
    framework, last = framework_of(name), name.rpartition(".")[2]
    if framework is None:
        return None
    if last in framework.objects:
        return Outside(name)
    if last in framework.gives_back:
        return args[0] if len(args) == 1 else Items(list(args), "tuple")
    if last in framework.integrates:
        return _integrate(interpreter, [*args, *keywords.values()], node)
    if last in framework.backward and args:
        return _backward(interpreter, args, node)
    model = args[0] if args else keywords.get("model")
    if last in framework.trains and isinstance(model, Instance):
        loaders = args[1] if len(args) > 1 else keywords.get("train_dataloaders", UNKNOWN)
        return _train(interpreter, framework, model, loaders, node)
    return None


def _train(interpreter: Interpreter, framework: Framework, holder: Instance, batches: Value, node: ast.AST) -> Value:
    """The training loop of a framework: it computes the loss of each batch, and runs backward and the optimizers."""
    steps = [found for name in framework.steps if isinstance(found := holder.cls.find(name), Function)]
    automatic = holder.names.get("automatic_optimization", Const(True))
    for batch in iterate(interpreter, batches, node, most=_ROUNDS) if steps else ():
        model = holder.names.get("model")
        arguments = [batch, PLAIN] if model is None else [model, batch]
        loss = interpreter.call_function(steps[0], [holder, *arguments][: _count(steps[0])], {}, node)
        if isinstance(automatic, Const) and automatic.value:
            _backward(interpreter, [_loss_in(loss)], node)
            for optimizer in _all_optimizers(_optimizers(interpreter, framework, holder, node)):
                interpreter.call(interpreter.attribute(optimizer, "step", node), [], {}, node)
                interpreter.call(interpreter.attribute(optimizer, "zero_grad", node), [], {}, node)
    return NONE


def _count(function: Function) -> int:
    """How many arguments a method takes by place."""
    return len(function.node.args.posonlyargs) + len(function.node.args.args)


def _loss_in(value: Value) -> Value:
    """The loss in what a training step returns: alone, in a dictionary, or before the outputs."""
    if isinstance(value, Dictionary):
        return value.items.get("loss", UNKNOWN)
    return value.items[0] if isinstance(value, Items) and value.items else value


def _optimizers(interpreter: Interpreter, framework: Framework, holder: Instance, node: ast.AST) -> Value:
    """The optimizers that the object makes for its framework: one, or all of them in order."""
    function = holder.cls.find(framework.makes_optimizers)
    if not isinstance(function, Function):
        return UNKNOWN
    result = interpreter.call_function(function, [holder], {}, node)
    if isinstance(result, Dictionary):
        return result.items.get("optimizer", UNKNOWN)
    if isinstance(result, Items) and any(isinstance(item, Items) for item in result.items):
        result = result.items[0]  # the optimizers, and their schedulers behind them
    if isinstance(result, Items) and len(result.items) == 1:
        return result.items[0]
    return result


def _all_optimizers(value: Value) -> list[Optimizer]:
    items = value.items if isinstance(value, Items) else [value]
    return [item for item in items if isinstance(item, Optimizer)]


def _backward(interpreter: Interpreter, args: Args, node: ast.AST) -> Value:
    if args and isinstance(args[0], Tensor):
        torch_model.method(interpreter, args[0], "backward", [], {}, node)
    else:
        interpreter.tape.opaque = True
    return NONE


def _gather(interpreter: Interpreter, holder: Instance, keywords: Keywords, node: ast.AST) -> Value:
    """Runs the message function on gathered rows, and sums what it returns: `x_i` and `x_j` hold copies of `x`."""
    function = holder.cls.find("message")
    if not isinstance(function, Function):
        return UNKNOWN
    arguments: dict[str, Value] = {}
    for argument in function.node.args.args[1:]:
        name = argument.arg
        whole = keywords.get(name.removesuffix("_i").removesuffix("_j"), UNKNOWN)
        rows = isinstance(whole, Tensor) and name not in keywords
        arguments[name] = (
            torch_model.run_op(interpreter, "index_select", [whole, Const(0), UNKNOWN], {}, node) if rows else whole
        )
    messages = interpreter.call_function(function, [holder], arguments, node)
    if not isinstance(messages, Tensor):
        return UNKNOWN
    return torch_model.run_op(interpreter, "sum", [messages, Const(0)], {}, node)


def _integrate(interpreter: Interpreter, args: Args, node: ast.AST) -> Value:
    """Two steps of a solver: what comes back depends on what `f` returns."""
    if len(args) < 2:
        return UNKNOWN
    state = args[1]
    for _ in range(_ROUNDS):
        slope = interpreter.call(args[0], [PLAIN, state], {}, node)
        if isinstance(state, Tensor) and isinstance(slope, Tensor):
            state = torch_model.run_op(interpreter, "add", [state, slope], {}, node)
    return state if isinstance(state, Tensor) else UNKNOWN
