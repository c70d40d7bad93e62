"""The tensors that can be reached from a value: through containers, objects and closures."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from outplace.source import torch_model
from outplace.source.graph import Storage
from outplace.source.joins import options
from outplace.source.values import (
    Bound,
    Choice,
    Class,
    Dictionary,
    Done,
    Function,
    Instance,
    Items,
    Layer,
    Optimizer,
    Partial,
    Plain,
    Scope,
    Tensor,
    Unknown,
    Value,
)


def storages_in(value: Value) -> Iterator[Storage]:
    """The memory that a value lies in, or may lie in, and that of what a container holds."""
    for option in options(value):
        if isinstance(option, Unknown):
            yield from option.of
        elif isinstance(option, Plain) and option.storage is not None:
            yield option.storage
        else:
            yield from (tensor.storage for tensor in torch_model.tensors_in(option))


def reachable(name: str, value: Value) -> Iterator[tuple[str, Tensor]]:
    """All tensors that can be got from a value, each with the last name on the way."""
    return reachable_from([(name, value)])


def reachable_from(named: Iterable[tuple[str, Value]]) -> Iterator[tuple[str, Tensor]]:
    """All tensors that can be got from several values, each with the last name on every way to it."""
    seen: set[tuple[int, str]] = set()
    stack = list(named)[::-1]
    while stack:
        name, one = stack.pop()
        if isinstance(one, Tensor):
            yield name, one
        has_own_names = isinstance(one, Instance | Function)
        if (key := (id(one), "" if has_own_names else name)) in seen:
            continue
        seen.add(key)
        if isinstance(one, Instance):
            stack += [(f".{attribute}", item) for attribute, item in one.names.items()]
        elif isinstance(one, Function):
            stack += [("", item) for item in (*one.defaults, *one.keyword_defaults.values(), *_closed_over(one))]
        else:
            stack += [(name, item) for item in _inside(one)]


def _inside(value: Value) -> list[Value]:
    if isinstance(value, Choice):
        return list(value.options)
    if isinstance(value, Class):
        return list(value.names.values())
    if isinstance(value, Items | Dictionary):
        own = value.items if isinstance(value, Items) else value.items.values()
        return [*own, *([value.rest] if value.rest is not None else [])]
    if isinstance(value, Layer):
        return [*value.state.values(), *value.children.values(), *value.forward_hooks]
    if isinstance(value, Optimizer):
        return list(value.parameters)
    if isinstance(value, Bound):
        return [value.receiver, *([value.function] if isinstance(value.function, Value) else [])]
    if isinstance(value, Partial):
        return [value.function, *value.args, *value.keywords.values()]
    return [value.result] if isinstance(value, Done) else []


def _closed_over(function: Function) -> list[Value]:
    """What a function inside another one sees of it, by the names that it uses."""
    scope: Scope | None = function.scope
    if scope is None or scope is function.module.scope:
        return []
    used = {node.id for node in ast.walk(function.node) if isinstance(node, ast.Name)}
    found: list[Value] = []
    while scope is not None and scope is not function.module.scope:
        found += [value for name, value in scope.names.items() if name in used]
        scope = scope.outer
    return found
