"""Optimizers and the parameters they step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from outplace.source.values import NONE, PLAIN, UNKNOWN, Dictionary, Function, Items, Optimizer, Tensor, Value, options

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def make_optimizer(interpreter: Interpreter, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
    """An optimizer and the parameters it was given."""
    if ".lr_scheduler." in name or "swa_utils" in name:
        return PLAIN
    source = args[0] if args else keywords.get("params", UNKNOWN)
    return Optimizer(name.rpartition(".")[2], list(parameters_in(source)))


def parameters_in(value: Value) -> Iterator[Tensor]:
    """The parameters that an optimizer is given, groups or not."""
    for option in options(value):
        if isinstance(option, Tensor):
            yield option
        elif isinstance(option, Items):
            for item in (*option.items, *([option.rest] if option.rest is not None else [])):
                yield from parameters_in(item)
        elif isinstance(option, Dictionary):
            yield from parameters_in(option.items.get("params", UNKNOWN))


def optimizer_method(
    interpreter: Interpreter, optimizer: Optimizer, name: str, args: list[Value], node: ast.AST
) -> Value:
    """A method of an optimizer; `step` writes its parameters."""
    if name == "step":
        if args and isinstance(args[0], Function):
            interpreter.call(args[0], [], {}, node)
        for tensor in optimizer.parameters:
            if tensor.requires_grad is not False:
                interpreter.tape.write(tensor, interpreter.place(node), f"{optimizer.kind}.step", step=True)
        return NONE
    if name == "add_param_group" and args:
        optimizer.parameters.extend(parameters_in(args[0]))
    return NONE
