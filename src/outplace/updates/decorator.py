"""`functional`: a function written with in-place operations, run so that its callers' tensors and gradients are right.

Two things make that so. The function gets clones of its tensor arguments: they are no leaves, and to write them
touches nobody else. And autograd keeps copies of what its nodes save, so that no later write inside the function can
spoil it.

torch.func.functionalize would rewrite every operation instead, but has no derivative and no batching rule for
`aten::copy`, which is what most item assignments become (torch 2.4 to 2.13).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from outplace.updates import mode

F = TypeVar("F", bound=Callable[..., Any])


def functional(fn: F) -> F:
    """Runs `fn`, which may write to its tensors, so that callers' tensors stay as they are and gradients are right.

    All tensors among the arguments, also inside tuples, lists and dicts, are cloned before the call; a tensor that is
    given twice is cloned once. What `fn` takes from elsewhere (globals, closures, attributes of `self`) is not cloned.
    """
    if inspect.isgeneratorfunction(fn) or inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
        raise TypeError(f"outplace.functional takes plain functions; {fn.__qualname__} is a generator or a coroutine")

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = pytree.tree_flatten((args, kwargs))
        args, kwargs = pytree.tree_unflatten(_cloned(leaves), structure)
        if not mode.eager():  # where hooks are refused; the clones are still something
            return fn(*args, **kwargs)
        with torch.autograd.graph.saved_tensors_hooks(_copied, _kept):
            return fn(*args, **kwargs)

    return cast(F, wrapper)


def _cloned(leaves: list[Any]) -> list[Any]:
    """The leaves with a clone for each tensor, the same for the same."""
    clones: dict[int, Tensor] = {}
    for leaf in leaves:
        if isinstance(leaf, Tensor) and id(leaf) not in clones:
            clones[id(leaf)] = leaf.clone()
    return [clones.get(id(leaf), leaf) for leaf in leaves]


def _copied(saved: Tensor) -> Tensor:
    return saved.detach().clone()


def _kept(copy: Tensor) -> Tensor:
    return copy
