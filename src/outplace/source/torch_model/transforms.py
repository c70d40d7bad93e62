"""torch.func: `grad`, `vmap` and other functions of functions, and modules called with other parameters."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING

from outplace.source.torch_model.modules import children_of
from outplace.source.torch_model.tensors import fresh, node_of, tensors_in
from outplace.source.values import (
    NONE,
    UNKNOWN,
    Args,
    Bound,
    Dictionary,
    Instance,
    Items,
    Keywords,
    Layer,
    Tensor,
    Value,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter

DIFFERENTIATING = {"grad", "value_and_grad", "grad_and_value", "jacrev", "jacfwd", "hessian", "vmap"}


def transformed(name: str, args: Args) -> Value:
    """`torch.func.grad(f)` and its kin: a function that is run when it is called."""
    return Bound(f"__{name}__", args[0]) if args else UNKNOWN


def run_transformed(
    interpreter: Interpreter, name: str, function: Value, args: Args, keywords: Keywords, node: ast.AST
) -> Value:
    """Runs the function, on a first argument that requires grad, and goes backward."""
    if name == "vmap":
        return interpreter.call(function, [_one_of(value) for value in args], keywords, node)
    arguments = [_tracked(interpreter, args[0]), *args[1:]] if args else []
    result = interpreter.call(function, arguments, keywords, node)
    roots = [root for tensor in tensors_in(result) if (root := node_of(tensor)) is not None]
    interpreter.tape.backward(roots)
    gradient = fresh(interpreter, None, "float")
    return Items([result, gradient], "tuple") if name == "value_and_grad" else gradient


def _one_of(value: Value) -> Value:
    """What `vmap` hands to its function: one of a batch, of a shape that is not known."""
    if isinstance(value, Tensor):
        one = copy.copy(value)
        one.shape, one.repeats = None, None if value.repeats else value.repeats
        return one
    if isinstance(value, Dictionary):
        return Dictionary({key: _one_of(item) for key, item in value.items.items()}, value.rest)
    if isinstance(value, Items):
        return Items([_one_of(item) for item in value.items], value.kind, value.rest)
    return value


def vjp(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`torch.func.vjp(f, x)`: what f gives, and a function that goes backward."""
    if not args:
        return UNKNOWN
    result = interpreter.call(args[0], [_tracked(interpreter, value) for value in args[1:]], {}, node)
    return Items([result, Bound("__pull__", result)], "tuple")


def pull(interpreter: Interpreter, made: Value) -> Value:
    """A call of what `vjp` has given."""
    interpreter.tape.backward([root for tensor in tensors_in(made) if (root := node_of(tensor)) is not None])
    return Items([fresh(interpreter, None, "float")], "tuple")


def differentiated(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`torch.autograd.functional.jacobian(f, x)` and its kin, which go backward before they return."""
    if len(args) < 2:
        return UNKNOWN
    inputs = args[1].items if isinstance(args[1], Items) else [args[1]]
    result = interpreter.call(args[0], [_tracked(interpreter, value) for value in inputs], {}, node)
    pull(interpreter, result)
    return UNKNOWN


def _tracked(interpreter: Interpreter, value: Value) -> Value:
    """The same memory, as an input of the function: it requires grad and may be written."""
    if isinstance(value, Tensor):
        inner = Tensor(value.storage, True, dtype=value.dtype)
        inner.shape, inner.packed, inner.since = value.shape, value.packed, interpreter.tape.tick()
        return inner
    if isinstance(value, Dictionary):
        return Dictionary({key: _tracked(interpreter, item) for key, item in value.items.items()}, value.rest)
    if isinstance(value, Items):
        return Items([_tracked(interpreter, item) for item in value.items], value.kind, value.rest)
    return value


def functional_call(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`torch.func.functional_call(module, parameters, args)`: the module with other parameters for the while."""
    if len(args) < 2:
        return UNKNOWN
    module, arguments = args[0], args[1]
    rest = args[2] if len(args) > 2 else keywords.get("args", Items([]))
    swapped: list[tuple[dict[str, Value], str, Value | None]] = []
    if isinstance(arguments, Dictionary):
        for name, value in arguments.items.items():
            holder, last = _holder(module, str(name))
            if holder is not None:
                swapped.append((holder, last, holder.get(last)))
                holder[last] = value if isinstance(value, Tensor) else fresh(interpreter, None)
    try:
        return interpreter.call(module, list(rest.items) if isinstance(rest, Items) else [rest], {}, node)
    finally:
        for holder, last, before in reversed(swapped):
            if before is None:
                holder.pop(last, None)
            else:
                holder[last] = before


def _holder(module: Value, name: str) -> tuple[dict[str, Value] | None, str]:
    """The names that a parameter is found in, by its dotted name."""
    *path, last = name.split(".")
    for part in path:
        module = children_of(module).get(part, NONE)
    if isinstance(module, Layer):
        return module.state, last  # type: ignore[return-value]
    return (module.names if isinstance(module, Instance) else None), last
