"""A call of an operation, with the op table's answer for it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from typing import Any

from outplace.knowledge import ops
from outplace.knowledge.ops import Arg
from outplace.knowledge.traits import shape_only
from outplace.source.torch_model.tensors import any_grad, as_argument, tensors_in
from outplace.source.values import Args, Keywords, Layer, Tensor, Value


@cache
def find_op(name: str) -> ops.Op | None:
    """The op table entry of that name, looked up once."""
    return ops.lookup(name)


class OpCall:
    """One call of an operation: its arguments, the tensors among them, and what the op table says of such a call."""

    __slots__ = ("args", "effect", "inputs", "keywords", "label", "layer", "node", "op")

    def __init__(
        self,
        op: ops.Op,
        args: Args,
        keywords: Keywords,
        node: ast.AST,
        label: str,
        layer: Layer | None,
        method: bool,
    ) -> None:
        self.op, self.args, self.keywords, self.node, self.label = op, args, keywords, node, label
        self.layer = layer
        """The module of torch.nn that makes the call."""
        arguments = [as_argument(value) for value in args]
        named = {key: as_argument(value) for key, value in keywords.items() if key not in ("out", "inplace")}
        settings = {"training": layer.training, **layer.options} if layer is not None else None
        state = Arg(True, any_grad(layer.state.values())) if layer is not None and layer.state else ops.TENSOR
        self.effect = _effect(op, arguments, named, method, settings, state)
        asked: Sequence[Value] = args[:1] if "other" in shape_only(op.name) else (*args, *keywords.values())
        self.inputs: list[Tensor] = [tensor for value in asked for tensor in tensors_in(value)]
        if layer is not None:
            self.inputs.extend(layer.state.values())

    def argument(self, key: str | int | None) -> Value | None:
        """An argument by its place or its name, or a parameter of the module by its name."""
        if isinstance(key, int):
            return self.args[key] if key < len(self.args) else None
        if key is None:
            return None
        return self.keywords.get(key) or (self.layer.state.get(key) if self.layer is not None else None)

    def first_tensor(self) -> Tensor | None:
        """The first tensor among the arguments."""
        return next((value for value in self.args if isinstance(value, Tensor)), None)


_effects: dict[Any, ops.Effect] = {}


def _effect(
    op: ops.Op, args: list[Arg], keywords: dict[str, Arg], method: bool, settings: dict[str, Any] | None, state: Arg
) -> ops.Effect:
    """The op table's answer, remembered: programs ask the same few hundred questions again and again."""
    key = (
        op.name,
        tuple(map(_asked, args)),
        tuple((name, _asked(arg)) for name, arg in keywords.items()) if keywords else None,
        method,
        tuple(settings.items()) if settings else None,
        state.grad,
    )
    try:
        found = _effects.get(key)
    except TypeError:  # an option that cannot be a key
        return ops.effect(op, args, keywords, method=method, options=settings, state=state)
    if found is None:
        found = _effects[key] = ops.effect(op, args, keywords, method=method, options=settings, state=state)
    return found


_NAMED = (str, bool, type(None))


def _asked(arg: Arg) -> Any:
    return arg.tensor, arg.grad, arg.value if isinstance(arg.value, _NAMED) else type(arg.value)
