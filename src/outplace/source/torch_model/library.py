"""Operators of `torch.library`: which of their arguments they write. A call of one is a write at the call."""

from __future__ import annotations

import ast
import copy
import re
from typing import TYPE_CHECKING, NamedTuple

from outplace.source.graph import Family, Storage
from outplace.source.torch_model.tensors import fresh, tensors_in
from outplace.source.values import (
    NONE,
    UNKNOWN,
    Args,
    Const,
    Function,
    GradMode,
    Imported,
    Items,
    Keywords,
    Namespace,
    Partial,
    Tensor,
    Torch,
    Value,
)

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter

DEFINING = ("torch.library.custom_op", "torch.library.triton_op")
"""Decorators that make an operator of a function."""
_LIBRARY = "torch.library.Library."
"""What `torch.library.Library("mine", "DEF")` is here: this, and the namespace."""
_KERNELS = ("register_kernel", "register_fake", "register_torch_dispatch")
"""Methods of an operator that take a function which runs without autograd."""


class Operator(NamedTuple):
    """What an operator of `torch.library` has declared."""

    name: str
    parameters: tuple[str, ...]
    written: frozenset[str]
    returns: str
    """Its result: `None`, `Tensor`, or another text."""
    function: Function | None = None
    """What it runs, if that is known."""


def defines_operator(decorator: Value) -> bool:
    """Does this decorator make an operator of a function?"""
    return (
        isinstance(decorator, Partial)
        and isinstance(decorator.function, Torch)
        and (decorator.function.name in DEFINING)
    )


def call(interpreter: Interpreter, name: str, args: Args, keywords: Keywords, node: ast.AST) -> Value | None:
    """A call of something of `torch.library` or `torch.ops`; None if nothing is known of it."""
    if name in DEFINING:
        return _define(interpreter, args, keywords)
    if name == _LIBRARY[:-1]:
        return Torch(_LIBRARY + str(args[0].value)) if args and isinstance(args[0], Const) else None
    if name == "torch.library.define" or (name.startswith(_LIBRARY) and name.endswith(".define")):
        _declare(interpreter, name.removeprefix(_LIBRARY).split(".")[0], args)
        return UNKNOWN
    called = name.split(".")[2:]
    if not name.startswith("torch.ops.") or len(called) < 2:
        return None
    if called[-1] in _KERNELS:
        return GradMode("off")
    operator = _known(interpreter, "::".join(called[:2]))
    return None if operator is None else run_operator(interpreter, operator, args, keywords, node)


def _known(interpreter: Interpreter, name: str) -> Operator | None:
    """The operator of this name that the file defines, or a module that it imports."""
    module = interpreter.frame.module
    for value in (None, *module.scope.names.values()):
        source = value.module if isinstance(value, Imported) else value
        if isinstance(source, Namespace):
            interpreter.names_of(source)
        defining = interpreter.project.load(source.path) if isinstance(source, Namespace) else module
        if defining is not None and name in defining.operators:
            return defining.operators[name]
    return None


def _define(interpreter: Interpreter, args: Args, keywords: Keywords) -> Value | None:
    """`custom_op("mine::scale_", function, mutates_args={"x"})`; without the function, what decorates one."""
    name, function = (*args, UNKNOWN, UNKNOWN)[:2]
    written = _named(keywords.get("mutates_args", UNKNOWN))
    if not isinstance(name, Const) or "::" not in str(name.value) or written is None:
        return None
    if not isinstance(function, Function):
        return Partial(Torch(DEFINING[0]), args, keywords)
    spec = function.node.args
    parameters = tuple(argument.arg for argument in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs))
    returns = getattr(function.node, "returns", None)
    function.grad = "off"  # its body runs below autograd
    declared = frozenset(parameters if written == {"unknown"} else written)
    full = str(name.value)
    operator = Operator(
        full.split("::")[1], parameters, declared, "" if returns is None else ast.unparse(returns), function
    )
    interpreter.frame.module.operators[full] = operator
    return Torch(f"torch.ops.{full.replace('::', '.')}", operator)


def _named(value: Value) -> set[str] | None:
    """The names in `mutates_args`; None if they are not known."""
    names = value.items if isinstance(value, Items) and value.rest is None else [value]
    if not all(isinstance(item, Const) for item in names):
        return None
    return {str(item.value) for item in names if isinstance(item, Const)}


_SCHEMA = re.compile(r"\s*([\w:]+)(?:\.\w+)?\s*\((.*)\)\s*->\s*(.*?)\s*", re.DOTALL)


def _declare(interpreter: Interpreter, namespace: str, args: Args) -> None:
    """`library.define("scale_(Tensor(a!) x) -> ()")`,
    or `torch.library.define("mine::scale_", "(Tensor(a!) x) -> ()")`."""
    texts = [str(value.value) for value in args[:2] if isinstance(value, Const)]
    schema = _SCHEMA.fullmatch("".join(texts) if "::" in texts[0] else texts[0]) if texts else None
    if schema is None:
        return
    name = schema[1] if "::" in schema[1] else f"{namespace}::{schema[1]}"
    arguments = [part.split("=")[0].split() for part in schema[2].split(",")]
    arguments = [words for words in arguments if len(words) > 1]
    written = frozenset(words[-1] for words in arguments if "!" in words[0])
    returns = "None" if schema[3] == "()" else schema[3]
    parameters = tuple(words[-1] for words in arguments)
    interpreter.frame.module.operators[name] = Operator(name.split("::")[1], parameters, written, returns)


def run_operator(interpreter: Interpreter, operator: Operator, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """The operator writes what it has declared, and its body is run for what PyTorch refuses there."""
    if operator.function is not None:
        storages: dict[Storage, Storage] = {}
        inside = [_below_autograd(value, storages) for value in args]
        named = {name: _below_autograd(value, storages) for name, value in keywords.items()}
        interpreter.call_function(operator.function, inside, named, node)
    given = {**dict(zip(operator.parameters, args, strict=False)), **keywords}
    for parameter in sorted(operator.written & set(given)):
        text = _text(node, operator.parameters.index(parameter) if parameter in operator.parameters else -1, parameter)
        for tensor in tensors_in(given[parameter]):
            interpreter.tape.write(tensor, interpreter.place(node), operator.name, target=text)
    if operator.returns == "None":
        return NONE
    return fresh(interpreter, None) if operator.returns.split(".")[-1] == "Tensor" else UNKNOWN


def _below_autograd(value: Value, storages: dict[Storage, Storage]) -> Value:
    """What the body is given: the same tensors without a graph. What it writes to them counts at the call."""
    if isinstance(value, Items):
        return Items([_below_autograd(item, storages) for item in value.items], value.kind, value.rest)
    if not isinstance(value, Tensor):
        return value
    result = copy.copy(value)
    result.storage, result.family = storages.setdefault(value.storage, Storage()), Family()
    result.requires_grad, result.node, result.leaf, result.parameter = False, None, False, False
    return result


def _text(node: ast.AST, position: int, name: str) -> str:
    """What the call passes as this argument, as it is written."""
    if not isinstance(node, ast.Call):
        return ""
    by_name = {word.arg: word.value for word in node.keywords}
    if name in by_name:
        return ast.unparse(by_name[name])
    plain = node.args[: position + 1]
    known = 0 <= position < len(node.args) and not any(isinstance(part, ast.Starred) for part in plain)
    return ast.unparse(node.args[position]) if known else ""
