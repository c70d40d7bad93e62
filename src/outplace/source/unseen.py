"""Objects whose class is not seen: networks and optimizers that are handed in, or built by unknown code.

Under hypotheses (`Interpreter.assumes`) such an object is the same whenever it is read. Who is asked for its parameters
is a network: it has weights, its backward needs them, and the optimizer that is given them changes them.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from outplace.knowledge.by_hand import MODULE_RETURNS_ITSELF
from outplace.source import torch_model
from outplace.source.graph import Node, Save
from outplace.source.heuristics import is_parameter_name, makes_optimizer
from outplace.source.joins import options
from outplace.source.values import (
    UNKNOWN,
    Args,
    Bound,
    Class,
    Instance,
    Items,
    Keywords,
    Layer,
    Optimizer,
    Outside,
    Tensor,
    Torch,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outplace.source.interpreter import Interpreter

_OF_NETWORKS = {"parameters", "named_parameters", "training", "train", "eval"}
_ASKED_FOR_PARTS = {"parameters", "named_parameters", "modules", "named_modules"}
"""What only networks are asked for."""
_WEIGHTS = "weights"
"""How a network saves its weights."""


class Unseen(Unknown):
    """Such an object, and the attributes of it that were read."""

    __slots__ = ("holder", "network", "optimizer", "parameters", "parts")

    def __init__(self, holder: Unseen | None = None, activates: bool = False) -> None:
        super().__init__(activates=activates)
        self.holder = holder
        self.network: Layer | None = None
        """Its weights, if it is a network."""
        self.optimizer: Optimizer | None = None
        """What it steps, if it is an optimizer."""
        self.parameters: dict[str, Tensor] = {}
        """Its weight and its bias, if it is a network or a part of one, and they were read."""
        self.parts: dict[str, Unseen] = {}

    def part(self, name: str) -> Unseen:
        """Its attribute of this name, the same whenever it is read."""
        return self.parts.setdefault(name, Unseen(self))

    def around(self) -> Iterator[Layer]:
        """The networks that it is, or is a part of."""
        holder: Unseen | None = self
        while holder is not None:
            yield from () if holder.network is None else (holder.network,)
            holder = holder.holder

    def networks(self) -> Iterator[Layer]:
        """What has weights: this object, the one that it is a part of, and its own parts."""
        yield from self.around()
        waiting = list(self.parts.values())
        for part in waiting:
            yield from () if part.network is None else (part.network,)
            waiting += part.parts.values()


class _ActivationClass(Unseen):
    """`getattr(nn, name)`: a class of torch. If an object of it is made of nothing, that is an activation."""

    __slots__ = ()


_LOOKED_UP = {"torch.nn": _ActivationClass, "torch.nn.functional": lambda: Unseen(activates=True)}
"""What `getattr` finds in a module of torch under a name that is not known."""


def attribute(interpreter: Interpreter, holder: Unseen, name: str, node: ast.AST) -> Value:
    """`holder.name`. Who is asked for its parameters is a network."""
    if name in _ASKED_FOR_PARTS:
        as_network(interpreter, holder)
    if holder.network is not None and name in (_OF_NETWORKS | {"zero_grad"}) - MODULE_RETURNS_ITSELF:
        return torch_model.attribute(interpreter, holder.network, name, node) or Bound(name, holder.network)
    if is_parameter_name(name) and any(holder.around()):
        return holder.parameters.setdefault(name, _parameter(interpreter, holder))
    return Bound(name, holder) if name in MODULE_RETURNS_ITSELF or name == "step" else holder.part(name)


def _parameter(interpreter: Interpreter, holder: Unseen) -> Tensor:
    """A weight of a part of a network. It is frozen if the network is."""
    made = torch_model.parameter(interpreter)
    made.requires_grad = all(weight.requires_grad for around in holder.around() for weight in around.state.values())
    return made


def inside(interpreter: Interpreter, container: Value, child: Value) -> Value:
    """What a container of modules holds is a module, the same whenever it is asked for, also if no more is known."""
    if isinstance(child, Unseen):
        return as_network(interpreter, child)
    if not all(isinstance(option, Unknown) for option in options(child)):
        return child
    key = (id(container), "[]")
    if key not in interpreter.parts:
        interpreter.parts[key] = container, as_network(interpreter, Unseen())
    found: Value = interpreter.parts[key][1]
    return found


def as_network(interpreter: Interpreter, thing: Unseen) -> Unseen:
    """It is a network."""
    if thing.network is None:
        thing.network = Layer("torch.nn.Module", {})
        thing.network.state["weight"] = weight = torch_model.parameter(interpreter)
        weight.known = False
    return thing


def _stands_for_all(weight: Tensor) -> bool:
    """Does it stand for all weights of a network that is not seen?"""
    return weight.parameter and not weight.known


def is_asked_of_networks(name: str) -> bool:
    """Is it an attribute that only networks have?"""
    return name in _OF_NETWORKS | _ASKED_FOR_PARTS


def made_of(interpreter: Interpreter, function: Value, args: Args, keywords: Keywords, node: ast.AST) -> Value | None:
    """What a call of unknown code makes, if it moves a network, or makes an optimizer of one."""
    if isinstance(function, Outside) and function.name == "builtins.getattr" and args and isinstance(args[0], Torch):
        return _LOOKED_UP.get(args[0].name, Unseen)()
    if isinstance(function, _ActivationClass) and not args:
        return Unseen(activates=True)
    if isinstance(function, Bound) and isinstance(thing := function.receiver, Unseen):
        if function.function == "step":
            return _step(interpreter, thing, args, keywords, node)
        return _itself(interpreter, function.function, thing, args, keywords, node)
    if isinstance(function, Unseen) and not (args or keywords) and any(function.around()):
        return function.part("()")  # `net.modules()`, `net.get_encoder()`
    if not isinstance(node, ast.Call) or not makes_optimizer(node):
        return None
    given = next((value for value in (*args, *keywords.values()) if _holds_weights(value)), None)
    return None if given is None else torch_model.make_optimizer("Optimizer", [given], {})


def _itself(
    interpreter: Interpreter, name: Any, thing: Unseen, args: Args, keywords: Keywords, node: ast.AST
) -> Unseen:
    """What a method such as `eval` or `requires_grad_` returns."""
    for network in thing.around() if name == "requires_grad_" else ():
        torch_model.method(interpreter, network, name, args, keywords, node)
    return thing


def _step(interpreter: Interpreter, thing: Unseen, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """An optimizer that was handed in steps what the backward before it reaches, if nothing else does so.

    It must be one network, that was handed in as well: of several it is not known which.
    """
    if thing.optimizer is None:
        last = next((event for event in reversed(interpreter.tape.events) if event.kind == "backward"), None)
        reached = {id(w): w for w in last.parameters if not w.held and _stands_for_all(w)} if last else {}
        if len(reached) != 1:
            return Unseen()
        made = torch_model.make_optimizer("Optimizer", [Items([*reached.values()])], {})
        thing.optimizer = made if isinstance(made, Optimizer) else None
    assert thing.optimizer is not None
    return torch_model.method(interpreter, thing.optimizer, "step", args, keywords, node) or UNKNOWN


def _holds_weights(value: Value) -> bool:
    return isinstance(value, Items) and any(isinstance(item, Tensor) and item.parameter for item in value.items)


def add_weights(interpreter: Interpreter, function: Value, node: Node) -> None:
    """The backward of a network needs its weights, and gives them gradients."""
    for weight in weights_of(function):
        node.leaves.append(weight)
        node.saves.append(Save(weight.storage, interpreter.tape.tick(), _WEIGHTS, True, parameter=True))


def is_run(function: Value, args: Args) -> bool:
    """Is it a network that is given something? That is tensors, then."""
    return isinstance(function, Unseen) and function.network is not None and bool(args)


def weights_of(function: Value) -> list[Tensor]:
    """The weights of what is called, if it is a network, or a method of one."""
    networks = function.networks() if isinstance(function, Unseen) else ()
    return [weight for network in networks for weight in network.state.values()]


def free(nodes: list[Node]) -> None:
    """A backward that keeps no graph frees what the networks have saved: no other backward can need it."""
    for node in nodes:
        if any(save.saved_as == _WEIGHTS for save in node.saves):
            node.saves = [save for save in node.saves if save.saved_as != _WEIGHTS]


def note_child(interpreter: Interpreter, holder: Instance, name: str, value: Value) -> None:
    """What a module calls as `self.name(x)` is a network."""
    if not isinstance(value, Unseen) or value.network is not None:
        return
    if (holder.cls.torch_base() or "").startswith("torch.nn.") and f"self.{name}(" in _text(holder.cls):
        as_network(interpreter, value)


def _text(cls: Class) -> str:
    return "\n".join(cls.module.lines[cls.node.lineno - 1 : cls.node.end_lineno])
