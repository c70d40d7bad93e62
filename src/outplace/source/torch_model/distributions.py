"""`torch.distributions`: samples and log-probabilities belong to the graph of the parameters.

A backward goes on through them to what made the parameters. What they keep for it themselves is not looked into: most
of it they have computed first, in memory of their own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from outplace.source.joins import options
from outplace.source.torch_model.tensors import any_grad, fresh, node_of, tensors_in
from outplace.source.values import UNKNOWN, Args, Distribution, Keywords, Tensor, Unknown, Value

if TYPE_CHECKING:
    from outplace.source.interpreter import Interpreter

_LOCATED = {"Normal", "Laplace", "Cauchy", "Gumbel", "MultivariateNormal", "LowRankMultivariateNormal"}
"""Their first parameter says where they lie, and only that: their entropy and spread do not depend on it."""
_OF_ALL = {"log_prob", "rsample", "cdf", "icdf", "probs", "logits"}
_OF_PLACE = {"mean", "mode", "loc"}
_OF_SPREAD = {"entropy", "perplexity", "stddev", "variance", "scale"}
_DRAWN = {"sample", "sample_n"}
_ATTRIBUTES = {"probs", "logits", "mean", "mode", "loc", "stddev", "variance", "scale"}


def make_distribution(name: str, args: Args, keywords: Keywords) -> Value:
    """`Normal(mean, std)`, `Independent(normal, 1)`; nothing is known of transforms and constraints."""
    short = name.rpartition(".")[2]
    if short == "Distribution" or not short[:1].isupper() or short.endswith(("Transform", "Constraint")):
        return UNKNOWN
    where: list[Tensor] = []
    spread: list[Tensor] = []
    unknown = False
    for index, (key, value) in enumerate([*((None, value) for value in args), *keywords.items()]):
        for option in options(value):
            if isinstance(option, Distribution):
                where, spread, unknown = where + option.where, spread + option.spread, unknown or option.unknown
        located = short in _LOCATED and (key == "loc" or (key is None and index == 0))
        (where if located else spread).extend(tensors_in(value))
        unknown = unknown or any(isinstance(option, Unknown) for option in options(value))
    return Distribution(where, spread, unknown)


def distribution_attribute(interpreter: Interpreter, holder: Distribution, name: str, node: ast.AST) -> Value | None:
    """An attribute of a distribution; None where it is a method."""
    return _of(interpreter, holder, name, [], node) if name in _ATTRIBUTES else None


def distribution_method(interpreter: Interpreter, holder: Distribution, name: str, args: Args, node: ast.AST) -> Value:
    """`log_prob`, `rsample`, `entropy` and the like."""
    if name in _DRAWN:
        return fresh(interpreter, False)
    if name == "expand":
        return holder
    return _of(interpreter, holder, name, args, node)


def divergence(interpreter: Interpreter, args: Args, keywords: Keywords, node: ast.AST) -> Value:
    """`kl_divergence(p, q)`."""
    both = [option for value in (*args, *keywords.values()) for option in options(value)]
    known = [item for item in both if isinstance(item, Distribution)]
    parts = [tensor for item in known for tensor in (*item.where, *item.spread)]
    return _linked(interpreter, parts, len(known) < 2 or any(item.unknown for item in known), "kl_divergence", node)


def _of(interpreter: Interpreter, holder: Distribution, name: str, args: Args, node: ast.AST) -> Value:
    if name in _OF_ALL:
        parts = [*holder.where, *holder.spread, *(tensor for value in args for tensor in tensors_in(value))]
    elif name in _OF_PLACE:
        parts = holder.where or holder.spread
    elif name in _OF_SPREAD:
        parts = holder.spread
    else:
        return UNKNOWN
    return _linked(interpreter, parts, holder.unknown, name, node)


def _linked(interpreter: Interpreter, parts: Iterable[Tensor], unknown: bool, name: str, node: ast.AST) -> Tensor:
    """A new tensor that is computed from these."""
    parts = list(parts)
    grad = any_grad(parts) or (None if unknown else False)
    tensor = fresh(interpreter, False if interpreter.grad in ("off", "inference") else grad, "float")
    if tensor.requires_grad:
        tensor.node = interpreter.record(name, node)
        tensor.node.inputs = [before for part in parts if (before := node_of(part)) is not None]
        tensor.node.leaves = [part for part in parts if part.leaf and part.requires_grad]
    return tensor
