"""Measuring one call: what it keeps for its backward, which tensors its outputs share memory with.

The version counter of each tensor is raised by one without a write, every `_saved_*` of every node between the outputs
and the inputs is read (that is the very check backward makes), and the counter is put back. What raises is saved and
belongs to that tensor's family (itself, its views, its base), so `weight.t()` inside a linear layer is charged to the
weight, which comparing addresses would not do.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

REFUSED = re.compile(r"not differentiable with respect to argument '(\w+)'")
Tensors = dict[str, Any]
"""Arguments by their formal names: a tensor or a list of tensors each."""


@dataclass
class Sample:
    """One way to call an operation: `call` gets fresh tensors under the names of `tensors`."""

    call: Callable[[Tensors], Any]
    tensors: Tensors
    options: dict[str, Any] = field(default_factory=dict)
    inplace: Callable[[Tensors], Any] | None = None
    given: frozenset[str] = frozenset()
    """Arguments that were passed and are no tensors, flags or words: `dim` in `x.max(dim=0)`."""
    owned: tuple[str, ...] = ()
    """Tensors that belong to a module: leaves, used as they are."""


@dataclass
class Observation:
    """What one call did. `saved` holds argument names, `results` output numbers, `shares` (output, argument) -> how."""

    tensors: frozenset[str]
    grad: frozenset[str]
    options: dict[str, Any]
    given: frozenset[str] = frozenset()
    saved: set[str] = field(default_factory=set)
    results: set[int] = field(default_factory=set)
    outputs: int = 1
    listed: bool = False
    solid: bool = True
    inner: set[str] = field(default_factory=set)
    shares: dict[tuple[int, str], str] = field(default_factory=dict)
    expanded: bool = False
    copied: bool = False
    nodes: set[str] = field(default_factory=set)
    grad_fn: set[str] = field(default_factory=set)


def flat(value: Any) -> list[torch.Tensor]:
    """The tensors of an output or an argument, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in flat(item)]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in flat(item)]
    return []


def differentiable(value: Any) -> bool:
    tensors = flat(value)
    return bool(tensors) and all(t.is_floating_point() or t.is_complex() for t in tensors)


def bump(tensor: torch.Tensor, by: int) -> None:
    version = tensor._version
    if by > 0:
        torch.autograd.graph.increment_version(tensor)
        return
    try:
        torch._C._autograd._unsafe_set_version_counter((tensor,), (version + by,))
    except TypeError:  # before 2.6
        torch._C._autograd._unsafe_set_version_counter(tensor, version + by)


def fresh(sample: Sample, grad: frozenset[str]) -> Tensors:
    """Copies of the arguments: those in `grad` require it and are no leaves (unless a module owns them)."""

    def one(tensor: torch.Tensor, name: str) -> torch.Tensor:
        if name in sample.owned:
            tensor.grad = None
            if tensor.is_floating_point():
                tensor.requires_grad_(name in grad)
            return tensor
        copy = tensor.detach().clone(memory_format=torch.preserve_format)
        return copy.requires_grad_().clone(memory_format=torch.preserve_format) if name in grad else copy

    made: Tensors = {}
    for name, value in sample.tensors.items():
        if isinstance(value, torch.Tensor):
            made[name] = one(value, name)
        else:
            made[name] = type(value)(one(v, name) if isinstance(v, torch.Tensor) else v for v in value)
    return made


def strided(sample: Sample) -> Sample:
    """The same call with arguments whose memory is laid out the other way round."""

    def turned(tensor: torch.Tensor) -> torch.Tensor:
        order = tuple(reversed(range(tensor.ndim)))
        return tensor.detach().permute(order).contiguous().permute(order)

    tensors = {
        name: turned(value) if isinstance(value, torch.Tensor) and name not in sample.owned else value
        for name, value in sample.tensors.items()
    }
    return replace(sample, tensors=tensors)


def walk(outputs: list[torch.Tensor], stop: set[Any]) -> Iterator[Any]:
    """The nodes between outputs and inputs; the inputs' own nodes are not part of it."""
    seen = set(stop)
    queue = [t.grad_fn for t in outputs if t.grad_fn is not None]
    while queue:
        node = queue.pop()
        if node in seen or node is None:
            continue
        seen.add(node)
        yield node
        queue += [following for following, _ in node.next_functions]


def saved_attributes(nodes: list[Any]) -> list[tuple[Any, str]]:
    found = []
    for node in nodes:
        names = [name for name in dir(type(node)) if name.startswith("_saved_")]
        if hasattr(node, "saved_tensors"):
            names.append("saved_tensors")
        found += [(node, name) for name in names if flat(getattr(node, name))]
    return found


def stale(attributes: list[tuple[Any, str]], tensor: torch.Tensor) -> set[int]:
    """Which saved attributes a write to this tensor would spoil."""
    bump(tensor, 1)
    hit = set()
    try:
        for number, (node, name) in enumerate(attributes):
            try:
                getattr(node, name)
            except RuntimeError:  # also "Output 0 of T is a view and its base ... has been modified inplace"
                hit.add(number)
    finally:
        bump(tensor, -1)
    return hit


def observe(sample: Sample, grad: frozenset[str], *, inplace: bool = False) -> Observation | None:
    """Run a sample once with the arguments in `grad` requiring grad. None if nothing was recorded."""
    tensors = fresh(sample, grad)
    stop = {t.grad_fn for value in tensors.values() for t in flat(value) if t.grad_fn is not None}
    before = flat(tensors.get("input"))
    old = before[0].detach().clone() if inplace and before else None
    call = sample.inplace if inplace else sample.call
    assert call is not None
    version = before[0]._version if before else 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = call(tensors)
    if inplace and before and before[0]._version == version:
        return None  # it takes the flag, and writes nothing
    outputs = [t for t in flat(made) if isinstance(t, torch.Tensor)]
    seen = Observation(frozenset(sample.tensors), grad, sample.options, sample.given, outputs=len(outputs))
    seen.listed = isinstance(made, (list, tuple)) and not hasattr(made, "_fields") and len(outputs) != 1
    seen.solid = any(t.numel() for t in outputs)
    if not inplace:
        _share(seen, outputs, tensors)
    if not any(t.requires_grad for t in outputs):
        return seen if seen.shares else None
    nodes = list(walk(outputs, stop))
    attributes = saved_attributes(nodes)
    owner: set[int] = set()
    for name, value in tensors.items():
        for tensor in flat(value):
            if hit := stale(attributes, tensor):
                owner |= hit
                seen.saved.add(name)
    for number, output in enumerate(outputs):
        if any(output is t for value in tensors.values() for t in flat(value)) and not inplace:
            continue
        if hit := stale(attributes, output):
            owner |= hit
            seen.results.add(number)
    if inplace and 0 in seen.results:
        seen.saved.discard("input")
    for number, (node, name) in enumerate(attributes):
        if number in owner:
            continue
        kept = flat(getattr(node, name))
        if name not in ("_saved_self", "_saved_other") or any(t.ndim for t in kept):  # else the 2 of `x * 2`
            seen.inner.add(f"{type(node).__name__}.{name.removeprefix('_saved_')}")
        for tensor in kept:
            if old is not None and tensor.shape == old.shape and torch.allclose(tensor, old.to(tensor), equal_nan=True):
                seen.copied = True
    seen.nodes = {type(node).__name__ for node in nodes}
    seen.grad_fn = {type(t.grad_fn).__name__ for t in outputs if t.grad_fn is not None and t.grad_fn not in stop}
    return seen


def _share(seen: Observation, outputs: list[torch.Tensor], tensors: Tensors) -> None:
    for number, output in enumerate(outputs):
        if output.layout != torch.strided or not output.numel():
            continue
        for name, value in tensors.items():
            for tensor in flat(value):
                if tensor is output:
                    seen.shares[number, name] = "same"
                elif (
                    tensor.layout == torch.strided
                    and tensor.untyped_storage()._cdata == output.untyped_storage()._cdata
                ):
                    seen.shares[number, name] = _view_kind(output, tensor)
        seen.expanded |= any(
            stride == 0 and size > 1 for stride, size in zip(output.stride(), output.shape, strict=True)
        )


def _view_kind(output: torch.Tensor, tensor: torch.Tensor) -> str:
    if not output._is_view():
        version = output._version
        bump(tensor, 1)
        followed = output._version != version
        bump(tensor, -1)
        return "detached" if followed else "untracked"
    return "multi" if "MULTI" in str(torch._C._autograd._get_creation_meta(output)) else "view"


def observations(sample: Sample, *, inplace: bool = False, guards: bool = True) -> list[Observation]:
    """A sample with all that can requiring grad, then with each alone."""
    able = [name for name, value in sample.tensors.items() if differentiable(value)]
    while True:
        try:
            everything = observe(sample, frozenset(able), inplace=inplace)
            break
        except RuntimeError as error:
            refused = REFUSED.search(str(error))
            if refused is None or refused[1] not in able:
                raise
            able.remove(refused[1])
    found = [everything]
    for name in able if guards and len(able) > 1 else []:
        try:
            found.append(observe(sample, frozenset([name]), inplace=inplace))
        except (RuntimeError, TypeError):  # an in-place form whose target cannot take the result
            continue
    return [seen for seen in found if seen is not None]
