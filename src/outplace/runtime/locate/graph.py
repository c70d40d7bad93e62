"""Reads a graph after a failed backward: which saved tensors are stale, and which memory each of them has."""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.autograd.graph import GradientEdge

from outplace.knowledge.errors import VersionError, parse_version_error
from outplace.runtime.patches import saved_tensor_hooks
from outplace.runtime.record import log
from outplace.runtime.record.snapshots import unobserved
from outplace.runtime.record.storages import is_wrapped, unwrapped

_FIRST_LEAF_NUMBER = 2**63
"""AccumulateGrad nodes have the largest possible number. They save nothing."""


CHECKPOINTED = "checkpoint"
"""The name of a saved tensor that a checkpoint keeps in order to run its block again."""


_DETACHED = "detached in-place"


@dataclass(frozen=True)
class Slot:
    """A saved tensor that was written after it was saved. `alias` shares its memory (None if torch hides it)."""

    node: Any
    saved_as: str
    error: VersionError | None
    message: str
    alias: torch.Tensor | None
    known_storage: int | None = None

    @property
    def storage(self) -> int | None:
        """The storage of the saved tensor, identified as in the record's writes."""
        if self.known_storage is not None or self.alias is None:
            return self.known_storage
        tensor = unwrapped(self.alias)
        try:
            return int(tensor.untyped_storage()._cdata)
        except (RuntimeError, NotImplementedError):
            return -int(tensor._cdata)


def roots_of(outputs: Iterable[Any]) -> list[Any]:
    """The nodes that a backward starts from."""
    nodes = [output.node if isinstance(output, GradientEdge) else output.grad_fn for output in outputs]
    return [node for node in nodes if node is not None]


MOST_NODES = 20_000
"""So many nodes of a graph are looked at while nothing has failed."""

_FREES_BY_RECURSION = (2, 12) <= torch.torch_version.TorchVersion(torch.__version__) < (2, 15)
"""Here a chain of some 30,000 nodes that Python has seen overflows the stack when it is freed: intrusive pointers."""


def nearest(roots: Iterable[Any]) -> list[Any]:
    """The nodes that the roots reach, the nearest first, as far as `MOST_NODES`."""
    waiting = deque(roots)
    seen: dict[Any, None] = {}
    while waiting and len(seen) < MOST_NODES:
        node = waiting.popleft()
        if node not in seen:
            seen[node] = None
            waiting.extend(following for following, _ in node.next_functions if following is not None)
    return list(seen)


def walk(roots: Iterable[Any]) -> Iterator[Any]:
    """All nodes that the roots reach, each once, without recursion."""
    seen: set[Any] = set()
    roots = list(roots)
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if len(seen) == MOST_NODES:
            keep_from_recursion(roots)
        yield node
        stack.extend(following for following, _ in node.next_functions if following is not None)


def keep_from_recursion(roots: Iterable[Any]) -> None:
    """More than `MOST_NODES` of this graph have been seen. Where that is dangerous, it is never freed."""
    for node in roots if _FREES_BY_RECURSION else ():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(node))


def needed_for(roots: list[Any], inputs: Iterable[Any]) -> set[Any] | None:
    """The nodes that a backward restricted to `inputs` runs; None if it runs all of them."""
    wanted = set()
    for tensor in inputs:
        if isinstance(tensor, GradientEdge):
            wanted.add(tensor.node)
        else:
            wanted.add(tensor.grad_fn if tensor.grad_fn is not None else _accumulator(tensor))
    wanted.discard(None)
    if not wanted:
        return None
    nodes = list(walk(roots))
    needed = {node for node in nodes if node in wanted}
    previous: dict[Any, list[Any]] = {}
    for node in nodes:
        for following, _ in node.next_functions:
            previous.setdefault(following, []).append(node)
    stack = list(needed)
    while stack:
        for node in previous.get(stack.pop(), ()):
            if node not in needed:
                needed.add(node)
                stack.append(node)
    return needed


def _accumulator(leaf: torch.Tensor) -> Any:
    try:
        with torch.enable_grad():
            return leaf.view_as(leaf).grad_fn.next_functions[0][0]
    except (RuntimeError, AttributeError):
        return None


def number_of(node: Any) -> int | None:
    """The node's number in the order in which its thread made nodes; None for leaves."""
    number = int(node._sequence_nr())
    return None if number >= _FIRST_LEAF_NUMBER else number


_names: dict[Any, tuple[str, ...]] = {}


def age_of(node: Any) -> int:
    """The node's number. Leaves count as the oldest."""
    number = number_of(node)
    return -1 if number is None else number


def _saved_names(node: Any) -> tuple[str, ...]:
    """The getters of its saved tensors. They are the same for all nodes of a class."""
    kind = type(node)
    if kind not in _names:
        _names[kind] = tuple(name for name in dir(kind) if name.startswith("_saved_"))
    return _names[kind]


def stale_slots(node: Any) -> list[Slot]:
    """The saved tensors of this node that were written after it saved them."""
    slots: list[Slot] = []
    for name in _saved_names(node):
        raw = _raw(node, "_raw" + name)
        slots.extend(_read(node, name[len("_saved_") :], partial(getattr, node, name), raw))
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        raw = _raw(node, "_raw_saved_tensors")
        slots.extend(_read(node, "saved_tensors", lambda: node.saved_tensors, raw))
    return slots


def freed_slots(node: Any) -> list[str]:
    """The saved tensors of this node that an earlier backward has freed, by their saved names."""
    found = []
    for name in _saved_names(node):
        raw = _raw(node, "_raw" + name)
        if saved_tensor_hooks.hook_of(node, raw) is None and _is_freed(partial(getattr, node, name)):
            found.append(name[len("_saved_") :])
    if isinstance(node, torch.autograd.function.BackwardCFunction) and _is_freed(lambda: node.saved_tensors):
        found.append("saved_tensors")
    return found


def _is_freed(unpack: Any) -> bool:
    try:
        unpack()
    except RuntimeError as error:
        return "a second time" in str(error)
    except Exception:  # a hook of an older torch, which cannot be tested
        return False
    return False


def detached_slots(node: Any) -> list[Slot]:
    """The inputs this node saved that `detach_()` may have detached since. Only unpacking shows this, not the getters.

    The node's own results look the same whether detached or not, so they are left out.
    """
    slots: list[Slot] = []
    for name in _saved_names(node):
        saved_as, raw = name[len("_saved_") :], _raw(node, "_raw" + name)
        if saved_as.startswith(("result", "output")) or isinstance(raw, list | tuple):
            continue
        if hasattr(raw, "unpack"):
            slots.extend(_stale(node, saved_as, _message_of(raw), raw))
        elif (alias := _alias(raw)) is not None and alias.grad_fn is None:
            slots.append(Slot(node, saved_as, None, "", alias))  # torch before 2.13: the record of detach_ decides
    return slots


def raw_saved(node: Any) -> Iterator[Any]:
    """The saved tensors of this node in torch's raw form, with the hooks that packed them."""
    for name in (*_saved_names(node), "_saved_tensors"):
        raw = _raw(node, "_raw" + name)
        yield from raw if isinstance(raw, list | tuple) else () if raw is None else (raw,)


def held(node: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The saved tensors of this node, without running a hook: (saved name, a tensor over its memory)."""
    for name in (*_saved_names(node), "_saved_tensors"):
        raw = _raw(node, "_raw" + name)
        label = "saved_tensors" if name == "_saved_tensors" else name[len("_saved_") :]
        for place, tensor in enumerate(_memory(node, name, raw)):
            if isinstance(tensor, torch.Tensor):
                yield (f"{label}[{place}]" if isinstance(raw, list | tuple) else label), tensor
    if is_inlined_function(node):
        for tensor in _saved_in_closure(node):
            if isinstance(tensor, torch.Tensor):
                yield "saved_tensors", tensor  # in an order that Dynamo has chosen


def is_inlined_function(node: Any) -> bool:
    """Is it a Function of the user, as Dynamo calls it in a region that a backend runs as it is?"""
    return getattr(getattr(node, "_forward_cls", None), "__name__", "") == "ApplyTemplate"


def _saved_in_closure(node: Any) -> Sequence[Any]:
    """What such a Function has saved. It lies in a closure, where PyTorch does not check versions."""
    cell = cell_of_saved(node)
    held = None if cell is None else cell.cell_contents
    return held if isinstance(held, list | tuple) else ()


def cell_of_saved(node: Any) -> Any:
    """The cell of the closure in which such a Function keeps what it has saved."""
    backward = node._forward_cls.backward
    return dict(zip(backward.__code__.co_freevars, backward.__closure__ or (), strict=True)).get("saved_values")


def _memory(node: Any, name: str, raw: Any) -> Sequence[Any]:
    """Tensors over the memory of each saved tensor that no hook has packed; None for the others."""
    parts = raw if isinstance(raw, list | tuple) else (raw,)
    if saved_tensor_hooks.TELLS:
        return [
            None if getattr(part, "unpack_hook", None) is not None else getattr(part, "data", None) for part in parts
        ]
    if raw is None or saved_tensor_hooks.hook_of(node, raw) is not None:
        return ()
    # Without hooks, unpacking changes nothing. PyTorch itself refuses what was written or freed.
    with unobserved():
        value = _raw(node, "saved_tensors" if name == "_saved_tensors" else name)
    values = value if isinstance(value, list | tuple) else (value,)
    return [None if isinstance(item, torch.Tensor) and is_wrapped(item) else item for item in values]


def _raw(node: Any, name: str) -> Any:
    try:
        return getattr(node, name, None)
    except RuntimeError:  # usually freed: the node ran before the failure
        return None


def _read(node: Any, saved_as: str, unpack: Any, raw: Any) -> list[Slot]:
    parts = raw if isinstance(raw, list | tuple) else (raw,)
    hooks = [hook for part in parts if (hook := saved_tensor_hooks.hook_of(node, part)) is not None]
    if hooks:  # unpacking would run the hook, and could recompute a whole checkpointed block
        return _checkpointed(node, hooks[0])
    try:
        unpack()
    except RuntimeError as error:
        message = str(error)
    except Exception:  # a hook of an older torch, which cannot be tested: it failed by itself
        return []
    else:
        return []
    if len(parts) == 1 and not isinstance(raw, list | tuple):
        return _stale(node, saved_as, message, parts[0])
    if parts and not hasattr(parts[0], "unpack"):
        return _stale_in_list(node, saved_as, message, dict(enumerate(parts)))
    found = []
    for index, part in enumerate(parts):
        own = _message_of(part)
        if _DETACHED in own and _DETACHED not in message:  # its own results look the same, stale or not
            found.extend(_stale_in_list(node, saved_as, message, {index: part}))
        else:
            found.extend(_stale(node, f"{saved_as}[{index}]", own, part))
    return found


def _stale_in_list(node: Any, saved_as: str, message: str, parts: Mapping[int, Any]) -> list[Slot]:
    """The stale ones among saved tensors that cannot be tested one by one, by their positions in the list.

    These are lists before torch 2.13, and a Function's own results. The stale tensor is the one that fits the message
    of the whole list, or any that was written.
    """
    error = parse_version_error(message)
    found: list[Slot] = []
    for index, part in parts.items() if error is not None else ():
        alias = _alias(part)
        if alias is None or error is None:
            continue
        fits = alias._version == error.version and error.sizes in (None, tuple(alias.shape))
        first = error.expected if fits else _first_write_since(node, alias)
        if first is not None:
            own = replace(error, sizes=tuple(alias.shape), version=alias._version, expected=first)
            found.append(Slot(node, f"{saved_as}[{index}]", own, message, alias))
    return found


def _first_write_since(node: Any, alias: torch.Tensor) -> int | None:
    """The version that the first write after this node found; None if there was no write."""
    number, storage = number_of(node), alias.untyped_storage()._cdata
    later = (write for write in log.current().writes if number is not None and write.moment > number)
    return next((write.before for write in later if write.storage == storage), None)


def _stale(node: Any, saved_as: str, message: str, raw: Any) -> list[Slot]:
    error = parse_version_error(message)
    if error is None and _DETACHED not in message:
        return []  # freed: the node ran before the failure
    return [Slot(node, saved_as, error, message, _alias(raw))]


def _message_of(raw: Any) -> str:
    try:
        raw.unpack()
    except RuntimeError as error:
        return str(error)
    return ""


def _alias(raw: Any) -> torch.Tensor | None:
    """A tensor over the same memory. `data` has no side effect; before torch 2.10 only a hook exposes it."""
    if hasattr(raw, "data"):
        return raw.data if isinstance(raw.data, torch.Tensor) else None
    handed: list[torch.Tensor] = []
    try:
        raw.register_hooks(lambda tensor: handed.append(tensor), lambda _: handed[0])
    except (RuntimeError, AttributeError, TypeError):
        return None
    return handed[0] if handed else None


def _checkpointed(node: Any, hook: Any) -> list[Slot]:
    """The arguments that were written, of the non-reentrant checkpoint to which this hook belongs."""
    slots: list[Slot] = []
    for cell in getattr(hook, "__closure__", None) or ():
        block = cell.cell_contents
        saver = _keeper_of_arguments(block)
        if saver is not None:
            if block not in _stale_arguments:  # a hook exposes it only once
                _stale_arguments[block] = stale_slots(saver)
            slots.extend(replace(slot, node=node, saved_as=CHECKPOINTED) for slot in _stale_arguments[block])
        for argument in getattr(block, "saved_args", None) or ():
            if hasattr(argument, "unpack"):
                slots.extend(_stale(node, CHECKPOINTED, _message_of(argument), argument))
    return slots


_stale_arguments: weakref.WeakKeyDictionary[Any, list[Slot]] = weakref.WeakKeyDictionary()


def arguments_of(block: Any) -> Iterator[torch.Tensor]:
    """The tensors that this checkpointed block was called with."""
    saver = _keeper_of_arguments(block)
    if saver is not None:
        yield from (tensor for _, tensor in held(saver))
    arguments = (getattr(argument, "data", None) for argument in getattr(block, "saved_args", None) or ())
    yield from (tensor for tensor in arguments if isinstance(tensor, torch.Tensor))


def _keeper_of_arguments(block: Any) -> Any:
    """The node in which torch before 2.13 keeps the arguments of a block. Later versions keep them in the block."""
    saver = getattr(block, "input_saver", None)
    return getattr(saver, "grad_fn", saver)
