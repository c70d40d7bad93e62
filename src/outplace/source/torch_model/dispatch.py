"""Attributes and methods of whatever torch has made."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from outplace.knowledge.by_hand import ARRAY_VIEWS, ARRAY_WRITING_METHODS
from outplace.source.torch_model.custom_functions import class_method, context_method
from outplace.source.torch_model.distributions import distribution_attribute, distribution_method
from outplace.source.torch_model.methods import check_own_copy, tensor_attribute, tensor_method
from outplace.source.torch_model.modules import module_method
from outplace.source.torch_model.operations import run_op
from outplace.source.torch_model.optimizers import (
    forget_gradients,
    note_cut,
    note_replaced,
    optimizer_method,
    parameters_in,
)
from outplace.source.torch_model.parametrized import check_remade, read_parameter
from outplace.source.torch_model.tensors import set_requires_grad
from outplace.source.torch_model.transforms import DIFFERENTIATING, pull, run_transformed
from outplace.source.torch_model.writing import numpy_write
from outplace.source.values import (
    NONE,
    PLAIN,
    UNKNOWN,
    Args,
    Choice,
    Class,
    Const,
    Dictionary,
    Distribution,
    Instance,
    Items,
    Keywords,
    Layer,
    Optimizer,
    Plain,
    Scaler,
    Tensor,
    Value,
    is_none,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter


def attribute(interpreter: Interpreter, holder: Value, name: str, node: ast.AST) -> Value | None:
    """An attribute of a torch value; None where it is a method."""
    if isinstance(holder, Tensor):
        return tensor_attribute(interpreter, holder, name, node)
    if isinstance(holder, Layer):
        if name in holder.state:
            return read_parameter(interpreter, holder, name, node)
        if name in holder.children:
            return holder.children[name]
        if name == "training":
            return PLAIN if holder.training is None else Const(holder.training)
        if name in holder.options:
            return Const(holder.options[name])
        return UNKNOWN if name in ("running_mean", "running_var", "bias") else None
    if isinstance(holder, Distribution):
        return distribution_attribute(interpreter, holder, name, node)
    if isinstance(holder, Plain):
        return None if name != "T" else holder
    if isinstance(holder, Optimizer) and name == "param_groups":
        return _groups(holder.parameters)
    if isinstance(holder, Items) and holder.kind == "tuple" and name in _FIELDS:
        return holder.items[_FIELDS[name]] if _FIELDS[name] < len(holder.items) else UNKNOWN
    return None


_FIELDS = {
    "values": 0, "indices": 1, "min": 0, "max": 1, "eigenvalues": 0, "eigenvectors": 1, "Q": 0, "R": 1, "S": 1, "V": 2,
    "Vh": 2, "sign": 0, "logabsdet": 1, "solution": 0, "inverse": 0, "LU": 0,
}  # fmt: skip
"""The places that torch's functions give names to in what they return. (`U` and `L` are not at one place in all.)"""


def _scaler_method(interpreter: Interpreter, name: str, args: Args, node: ast.AST) -> Value:
    """`scaler.scale(loss)` and `scaler.step(optimizer)`."""
    if name == "scale" and args and isinstance(args[0], Tensor):
        return run_op(interpreter, "mul", [args[0], PLAIN], {}, node, label="scale")
    if name == "step" and args:
        return interpreter.call(interpreter.attribute(args[0], "step", node), [], {}, node)
    return NONE if name in ("update", "unscale_") else UNKNOWN


_SWITCHES = ("inplace", "p", "max_norm")
"""Options of a module that can be set later."""


def set_attribute(interpreter: Interpreter, holder: Value, name: str, value: Value, node: ast.AST) -> None:
    """`holder.name = value` on a torch value."""
    if isinstance(holder, Tensor):
        _set_tensor_attribute(interpreter, holder, name, value, node)
    elif isinstance(holder, Layer):
        if (
            isinstance(value, Tensor) and name not in holder.recomputed
        ):  # else it is what gives this weight that changes
            note_replaced(interpreter, holder.state.get(name), value, node)
            holder.state[name] = value
        elif isinstance(value, (Layer, Instance)):
            note_replaced(interpreter, holder.children.get(name), value, node)
            holder.children[name] = value
        elif name in _SWITCHES:
            holder.options = {**holder.options, name: value.value if isinstance(value, Const) else None}


def _set_tensor_attribute(interpreter: Interpreter, tensor: Tensor, name: str, value: Value, node: ast.AST) -> None:
    if name == "data":
        _set_data(interpreter, tensor, value, node)
    elif name in ("grad", "_grad"):
        tensor.has_grad = not is_none(value)
        if isinstance(value, Tensor) and (tensor.grad is None or value.storage is not tensor.grad.storage):
            value.assigned = interpreter.place(node)
        tensor.grad = value if isinstance(value, Tensor) else None
    elif name in ("real", "imag"):  # they are views, and assigning to them copies into them
        part = tensor_attribute(interpreter, tensor, name, node)
        if isinstance(part, Tensor) and not isinstance(node, ast.AugAssign):
            tensor_method(interpreter, part, "copy_", [value], {}, node)
    elif name == "requires_grad" and isinstance(value, Const):
        set_requires_grad(interpreter, tensor, bool(value.value))


def _set_data(interpreter: Interpreter, tensor: Tensor, value: Value, node: ast.AST) -> None:
    """`tensor.data = value`: the tensor lies elsewhere from now on."""
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    if isinstance(target, ast.Attribute):
        check_remade(interpreter, tensor, target.value, node)
    check_own_copy(interpreter, tensor, value)
    interpreter.tape.write(tensor, interpreter.place(node), ".data =", tracked=False, moved=True)
    tensor.aliased = None
    if isinstance(value, Tensor):
        tensor.expanded, tensor.repeated = value.expanded, value.repeated
        tensor.packed, tensor.shape = value.packed, value.shape
        interpreter.tape.restore(tensor, value)
        note_cut(interpreter, tensor, value, node)


def method(
    interpreter: Interpreter, receiver: Value, name: str, args: Args, keywords: Keywords, node: ast.AST
) -> Value | None:
    """A method of a torch value; None where nothing is known of it."""
    if name == "__pull__":
        return pull(interpreter, receiver)
    if isinstance(receiver, Choice):
        return interpreter.each(
            receiver, lambda option: method(interpreter, option, name, args, keywords, node) or UNKNOWN
        )
    if isinstance(receiver, Tensor):
        return tensor_method(interpreter, receiver, name, args, keywords, node)
    if isinstance(receiver, Distribution):
        return distribution_method(interpreter, receiver, name, [*args, *keywords.values()], node)
    if isinstance(receiver, Scaler):
        return _scaler_method(interpreter, name, args, node)
    if name.startswith("__") and name.strip("_") in DIFFERENTIATING:
        return run_transformed(interpreter, name.strip("_"), receiver, args, keywords, node)
    if isinstance(receiver, Optimizer):
        return optimizer_method(interpreter, receiver, name, args, keywords, node)
    if isinstance(receiver, Instance) and name in ("save_for_backward", "mark_dirty"):
        return context_method(receiver, name, args)
    if isinstance(receiver, Instance) and (name == "__init_optimizer__" or "param_groups" in receiver.names):
        return _method_of_own_optimizer(interpreter, receiver, name, args, keywords, node)
    if isinstance(receiver, (Layer, Instance)):
        return module_method(interpreter, receiver, name, args, keywords, node)
    if isinstance(receiver, Class):
        return class_method(interpreter, receiver, name, args, keywords, node)
    if isinstance(receiver, Plain) and receiver.storage is not None:
        return _array_method(interpreter, receiver, name, node)
    return None


def _method_of_own_optimizer(
    interpreter: Interpreter, made: Instance, name: str, args: Args, keywords: Keywords, node: ast.AST
) -> Value | None:
    """What an optimizer of the project inherits from `torch.optim.Optimizer`."""
    if name == "__init_optimizer__":
        interpreter.set_name(made.names, "param_groups", _groups(parameters_in(args[0]) if args else ()))
        return NONE
    if name != "zero_grad":
        return None
    forget_gradients(interpreter, list(parameters_in(made.names["param_groups"])), args, keywords, node)
    return NONE


def _array_method(interpreter: Interpreter, array: Plain, name: str, node: ast.AST) -> Value:
    """A method of a numpy array that lies over a tensor."""
    if name in ARRAY_WRITING_METHODS:
        numpy_write(interpreter, array, node)
        return NONE
    return Plain(array.storage, sure=array.sure) if name in ARRAY_VIEWS else PLAIN


def _groups(parameters: Iterable[Tensor]) -> Items:
    """An optimizer's `param_groups`."""
    return Items([Dictionary({"params": Items(list(parameters))}, PLAIN)])
