"""Reads a graph after a failed backward: which saved tensors are stale, and the very memory each of them stands for."""

from __future__ import annotations

import weakref
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
"""AccumulateGrad nodes carry the largest number there is; they save nothing."""


CHECKPOINTED = "checkpoint"
"""What a tensor is saved as that a checkpoint keeps to run its block again."""


_DETACHED = "detached in-place"


@dataclass(frozen=True)
class Slot:
    """A saved tensor that is not what it was: `alias` shares its memory (None where torch does not hand it out)."""

    node: Any
    saved_as: str
    error: VersionError | None
    message: str
    alias: torch.Tensor | None
    known_storage: int | None = None

    @property
    def storage(self) -> int | None:
        """The storage it lies in, as `writes` identifies it."""
        if self.known_storage is not None or self.alias is None:
            return self.known_storage
        tensor = unwrapped(self.alias)
        try:
            return int(tensor.untyped_storage()._cdata)
        except (RuntimeError, NotImplementedError):
            return -int(tensor._cdata)


def roots_of(outputs: Iterable[Any]) -> list[Any]:
    """The nodes a backward starts from."""
    nodes = [output.node if isinstance(output, GradientEdge) else output.grad_fn for output in outputs]
    return [node for node in nodes if node is not None]


def walk(roots: Iterable[Any]) -> Iterator[Any]:
    """All nodes reachable from the roots, once each, without recursion."""
    seen: set[Any] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        stack.extend(following for following, _ in node.next_functions if following is not None)


def needed_for(roots: list[Any], inputs: Iterable[Any]) -> set[Any] | None:
    """The nodes that a backward restricted to `inputs` runs; None where all of them do."""
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
    """The node's place in the order its thread made nodes; None for leaves."""
    number = int(node._sequence_nr())
    return None if number >= _FIRST_LEAF_NUMBER else number


_names: dict[Any, tuple[str, ...]] = {}


def _saved_names(node: Any) -> tuple[str, ...]:
    """The getters of its saved tensors, the same for all nodes of a kind."""
    kind = type(node)
    if kind not in _names:
        _names[kind] = tuple(name for name in dir(kind) if name.startswith("_saved_"))
    return _names[kind]


def stale_slots(node: Any) -> list[Slot]:
    """The saved tensors of this node that were modified since it saved them."""
    slots: list[Slot] = []
    for name in _saved_names(node):
        raw = _raw(node, "_raw" + name)
        slots.extend(_read(node, name[len("_saved_") :], partial(getattr, node, name), raw))
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        raw = _raw(node, "_raw_saved_tensors")
        slots.extend(_read(node, "saved_tensors", lambda: node.saved_tensors, raw))
    return slots


def freed_slots(node: Any) -> list[str]:
    """What this node has saved and an earlier run of it has freed, by what it was to the node."""
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
    except Exception:  # a hook of an older torch, which cannot be asked
        return False
    return False


def detached_slots(node: Any) -> list[Slot]:
    """The inputs this node saved that `detach_()` may have cut off since; its getters do not tell, unpacking does.

    Its own results always answer so, detached or not: they are left out.
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
    """What this node has saved, as torch keeps it: with the hooks that have packed it."""
    for name in (*_saved_names(node), "_saved_tensors"):
        raw = _raw(node, "_raw" + name)
        yield from raw if isinstance(raw, list | tuple) else () if raw is None else (raw,)


def held(node: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """What this node has saved, without running a hook: (what it is to the node, a tensor over its memory)."""
    for name in (*_saved_names(node), "_saved_tensors"):
        raw = _raw(node, "_raw" + name)
        label = "saved_tensors" if name == "_saved_tensors" else name[len("_saved_") :]
        for place, tensor in enumerate(_memory(node, name, raw)):
            if isinstance(tensor, torch.Tensor):
                yield (f"{label}[{place}]" if isinstance(raw, list | tuple) else label), tensor


def _memory(node: Any, name: str, raw: Any) -> Sequence[Any]:
    """Tensors over the memory of what is saved there and no hook has packed, and None for the others."""
    parts = raw if isinstance(raw, list | tuple) else (raw,)
    if saved_tensor_hooks.TELLS:
        return [
            None if getattr(part, "unpack_hook", None) is not None else getattr(part, "data", None) for part in parts
        ]
    if raw is None or saved_tensor_hooks.hook_of(node, raw) is not None:
        return ()
    # Without hooks to unpack it changes nothing. What was written or freed is PyTorch's own to refuse.
    with unobserved():
        value = _raw(node, "saved_tensors" if name == "_saved_tensors" else name)
    values = value if isinstance(value, list | tuple) else (value,)
    return [None if isinstance(one, torch.Tensor) and is_wrapped(one) else one for one in values]


def _raw(node: Any, name: str) -> Any:
    try:
        return getattr(node, name, None)
    except RuntimeError:  # freed, most often: it ran before the failure
        return None


def _read(node: Any, saved_as: str, unpack: Any, raw: Any) -> list[Slot]:
    parts = raw if isinstance(raw, list | tuple) else (raw,)
    hooks = [hook for part in parts if (hook := saved_tensor_hooks.hook_of(node, part)) is not None]
    if hooks:  # unpacking would run the hook (and recompute a whole checkpointed block): look, don't touch
        return _checkpointed(node, hooks[0])
    try:
        unpack()
    except RuntimeError as error:
        message = str(error)
    except Exception:  # a hook of an older torch, which cannot be asked: it failed by itself
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
        if _DETACHED in own and _DETACHED not in message:  # its own results always answer so, stale or not
            found.extend(_stale_in_list(node, saved_as, message, {index: part}))
        else:
            found.extend(_stale(node, f"{saved_as}[{index}]", own, part))
    return found


def _stale_in_list(node: Any, saved_as: str, message: str, parts: Mapping[int, Any]) -> list[Slot]:
    """Those that cannot be asked one by one (torch before 2.13, a Function's own results), by their places in the list.

    Stale is the one that fits the message of the whole list, and any that was written.
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
    """The version that the first write after this node found; None where nobody wrote."""
    number, storage = number_of(node), alias.untyped_storage()._cdata
    later = (write for write in log.current().writes if number is not None and write.moment > number)
    return next((write.before for write in later if write.storage == storage), None)


def _stale(node: Any, saved_as: str, message: str, raw: Any) -> list[Slot]:
    error = parse_version_error(message)
    if error is None and _DETACHED not in message:
        return []  # freed: it ran before the failure
    return [Slot(node, saved_as, error, message, _alias(raw))]


def _message_of(raw: Any) -> str:
    try:
        raw.unpack()
    except RuntimeError as error:
        return str(error)
    return ""


def _alias(raw: Any) -> torch.Tensor | None:
    """A tensor over the same memory. `data` has no side effect; before 2.10 only a hook hands it over."""
    if hasattr(raw, "data"):
        return raw.data if isinstance(raw.data, torch.Tensor) else None
    handed: list[torch.Tensor] = []
    try:
        raw.register_hooks(lambda tensor: handed.append(tensor), lambda _: handed[0])
    except (RuntimeError, AttributeError, TypeError):
        return None
    return handed[0] if handed else None


def _checkpointed(node: Any, hook: Any) -> list[Slot]:
    """The arguments of a non-reentrant checkpoint, to which this hook belongs, that were modified."""
    slots: list[Slot] = []
    for cell in getattr(hook, "__closure__", None) or ():
        block = cell.cell_contents
        saver = _keeper_of_arguments(block)
        if saver is not None:
            if block not in _stale_arguments:  # what is handed over by a hook is so only once
                _stale_arguments[block] = stale_slots(saver)
            slots.extend(replace(slot, node=node, saved_as=CHECKPOINTED) for slot in _stale_arguments[block])
        for argument in getattr(block, "saved_args", None) or ():
            if hasattr(argument, "unpack"):
                slots.extend(_stale(node, CHECKPOINTED, _message_of(argument), argument))
    return slots


_stale_arguments: weakref.WeakKeyDictionary[Any, list[Slot]] = weakref.WeakKeyDictionary()


def arguments_of(block: Any) -> Iterator[torch.Tensor]:
    """The tensors that such a block was called with."""
    saver = _keeper_of_arguments(block)
    if saver is not None:
        yield from (tensor for _, tensor in held(saver))
    given = (getattr(argument, "data", None) for argument in getattr(block, "saved_args", None) or ())
    yield from (tensor for tensor in given if isinstance(tensor, torch.Tensor))


def _keeper_of_arguments(block: Any) -> Any:
    """The node in which a block of torch before 2.13 keeps its arguments; later ones have them themselves."""
    saver = getattr(block, "input_saver", None)
    return getattr(saver, "grad_fn", saver)
