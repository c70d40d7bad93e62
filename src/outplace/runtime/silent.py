"""Finds wrong gradients that PyTorch never reports, while the program runs.

Writes that move no version (through `.data`, through numpy, by fused optimizers) are noted like all others. When a
backward starts and there are such writes, the graph is walked: one that came after a node saved the same memory makes
that node's gradient wrong. Each writing line is looked at for a few backwards and then ever more rarely, since a bug of
this sort repeats itself at every step; a program without such writes pays nothing.

Two more are seen where they happen: a hook that writes a gradient which others hold too, and a `state_dict()` that was
kept, not copied, while the parameters in it were trained on.
"""

from __future__ import annotations

import ast
import functools
import sys
import weakref
from collections import Counter, deque
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

from outplace.knowledge.kinds import BY_NAME
from outplace.knowledge.nodes import describe_saved
from outplace.model import Diagnosis, Fix, Mutation, SavedTensor, Tensor
from outplace.runtime import aliases, diagnose, graph, names, record, sites, writes
from outplace.runtime import culprits as culprits_of
from outplace.runtime.makers import narrow_to_maker
from outplace.runtime.record import Instruction, Write, frames_to_own_code

_KEPT = 2_000
_ALWAYS = 3

_hidden: deque[Write] = deque(maxlen=_KEPT)
_unexamined: list[Write] = []
_examined: Counter[tuple[int, int]] = Counter()
_reported: set[tuple[Any, ...]] = set()
_get_frame = sys._getframe

NO_ERROR = "no error is raised: the gradient is silently wrong"


# -- noting -------------------------------------------------------------------------------------------------------


def note_hidden(write: Write) -> None:
    """Notes a write that autograd cannot see."""
    _hidden.append(write)
    if write.frames and _worth_a_look(write.frames[-1]):
        _unexamined.append(write)


def _worth_a_look(place: Instruction) -> bool:
    """At the first few backwards, then at the 4th, 8th, 16th ... time that the line has written."""
    key = (id(place[0]), place[1])
    _examined[key] += 1
    count = _examined[key]
    return count <= _ALWAYS or count & (count - 1) == 0


def note_array(value: Any) -> Any:
    """Called by marked code on what an item assignment writes into: numpy arrays may lie over a tensor."""
    if not writes.is_traced():
        storage = aliases.storage_under(value)
        if storage is not None:
            frame = _get_frame(1)
            moment = torch._C._autograd._get_sequence_nr()
            place = ((frame.f_code, frame.f_lasti),)
            note_hidden(Write(storage, None, moment, "numpy", place, None, False))
    return value


class DataAttribute:
    """Stands in `torch.Tensor` for `data`: remembers the alias it hands out, and notes `x.data = y`."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def __get__(self, tensor: Any, owner: type | None = None) -> Any:
        if tensor is None:
            return self._original
        alias = self._original.__get__(tensor, owner)
        if not writes.is_traced() and type(alias) is torch.Tensor:
            aliases.remember(alias)
        return alias

    def __set__(self, tensor: Any, value: Any) -> None:
        self._original.__set__(tensor, value)
        if not writes.is_traced():
            frames = frames_to_own_code(_get_frame(1))
            storage = names.storage_of(tensor)
            if storage is not None and len(frames) == 1:  # `module.to()` and its kin come from library code
                moment = torch._C._autograd._get_sequence_nr()
                note_hidden(Write(storage, None, moment, ".data =", frames, None, False))

    def __delete__(self, tensor: Any) -> None:
        self._original.__delete__(tensor)


# -- at backward --------------------------------------------------------------------------------------------------


def examine_backward(frame: FrameType) -> None:
    """Looks for nodes whose saved memory was written unseen; `frame` is torch's own, as backward starts."""
    if not _unexamined:
        return
    _unexamined.clear()
    _guarded(lambda: _examine(frame))


def _guarded(look: Callable[[], None]) -> None:
    """A fault of ours must never stop the user's program."""
    try:
        look()
    except Exception as trouble:
        diagnose.report_fault(trouble)


def _examine(frame: FrameType) -> None:
    by_storage: dict[int, list[Write]] = {}
    for write in _hidden:
        by_storage.setdefault(write.storage, []).append(write)
    for node in graph.walk(graph.roots_of(frame.f_locals.get("t_outputs", ()))):
        number = graph.number_of(node)
        if number is None:
            continue
        for saved_as, alias in graph.held(node):
            suspects = by_storage.get(names.storage_of(alias) or 0, [])
            hurting = [write for write in suspects if write.moment > number or _changed_in_graph(write, alias)]
            if hurting:
                _report(node, saved_as, alias, hurting, suspects, frame)


def _changed_in_graph(write: Write, alias: torch.Tensor) -> bool:
    """Was a result of the graph changed through numpy before it was used further?"""
    made = None if write.operation != "numpy" or alias.grad_fn is None else graph.number_of(alias.grad_fn)
    return made is not None and write.moment > made


def _report(
    node: Any, saved_as: str, alias: torch.Tensor, hurting: list[Write], suspects: list[Write], frame: FrameType
) -> None:
    kind = "silent-alias" if hurting[-1].operation == "numpy" else "silent-data"
    functions = {write.frames[-1][0] for write in hurting if write.frames}
    # A value that is swapped and put back: the other half of the swap is part of the bug.
    culprits = [write for write in suspects if write.frames and write.frames[-1][0] in functions]
    mutations = _mutations(culprits)
    located = sites.at_place(culprits_of.place_of(node))
    name = node.name()
    site = narrow_to_maker(located, name).site if located is not None else None
    base = alias if alias._base is None else alias._base
    tensor_name = names.name_in_frames(base, names.own_frames(None, frame)) or _target(culprits[-1])
    unseen = "through numpy" if kind == "silent-alias" else "in a way that moves no version"
    why = (
        f"{describe_saved(name, saved_as)} for its backward. Its memory was then written {unseen}, so PyTorch cannot "
        "tell, and the gradient is computed from the wrong values."
    )
    shape, dtype = tuple(alias.shape), str(alias.dtype).removeprefix("torch.")
    saved_by = SavedTensor(name, saved_as, None, site)
    _tell(kind, Tensor(tensor_name, shape, dtype), why, mutations, saved_by, _REMEDIES[kind])


_REMEDIES = {
    "silent-data": "Compute the new value out of place, or write a clone; `.detach()` at least lets PyTorch notice.",
    "silent-alias": "Give numpy a copy: `.detach().numpy().copy()`, or `torch.tensor(array)` instead of from_numpy.",
    "gradient": "Return a new gradient from the hook: `return grad * 0.1` instead of `grad.mul_(0.1)`.",
    "state-dict": "Keep a copy: `copy.deepcopy(model.state_dict())`.",
}


def _mutations(culprits: list[Write]) -> tuple[Mutation, ...]:
    found: dict[tuple[str, int], Mutation] = {}
    for write in culprits:
        site = sites.at_instruction(write.frames[-1], write.operation).site
        found.setdefault((site.file, site.line), Mutation(write.operation, site, None))
    return tuple(found.values())


def _target(write: Write) -> str | None:
    """What the user calls the tensor that was written."""
    node = sites.target_node(sites.at_instruction(write.frames[-1], write.operation), write.operation)
    return None if node is None else ast.unparse(node)


def _tell(
    kind: str,
    tensor: Tensor,
    why: str,
    mutations: tuple[Mutation, ...],
    saved_by: SavedTensor | None,
    remedy: str,
) -> None:
    """Reports a bug once, however often the program runs into it."""
    key = (kind, tuple((mutation.site.file, mutation.site.line) for mutation in mutations if mutation.site))
    if key in _reported or not mutations:
        return
    _reported.add(key)
    fix = Fix(remedy, "suggestion")
    made = Diagnosis(
        kind, BY_NAME[kind].code, NO_ERROR, tensor, why, saved_by=saved_by, mutations=mutations, fixes=(fix,)
    )
    diagnose.add(made)


# -- hooks that write gradients -----------------------------------------------------------------------------------


def _watched_hook(hook: Any) -> Any:
    @functools.wraps(hook, assigned=("__name__", "__qualname__", "__doc__", "__module__"))
    def watched(gradient: Any) -> Any:
        if not isinstance(gradient, torch.Tensor) or writes.is_traced():
            return hook(gradient)
        # We hold it once, the engine once; whoever else holds it (another branch) will see what the hook writes.
        shared, before = gradient._use_count() > 2, gradient._version
        made = hook(gradient)
        if shared and gradient._version != before:
            _guarded(lambda: _report_hook(gradient))
        return made

    return watched


def _report_hook(gradient: torch.Tensor) -> None:
    storage = names.storage_of(gradient)
    last = [write for write in record.current().writes if write.storage == storage and write.frames][-1:]
    tensor = Tensor(
        _target(last[0]) if last else None, tuple(gradient.shape), str(gradient.dtype).removeprefix("torch.")
    )
    why = (
        "The hook writes the gradient in place. Autograd has handed the very same tensor to another branch of the "
        "graph, which now gets the changed gradient too."
    )
    _tell("silent-other", tensor, why, _mutations(last), None, _REMEDIES["gradient"])


# -- state dicts that are kept --------------------------------------------------------------------------------------

_state_dicts: deque[tuple[weakref.ref[Any], int]] = deque(maxlen=64)


def _make_state_dict(original: Any) -> Any:
    @functools.wraps(original)
    def state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(self, *args, **kwargs)
        if not writes.is_traced() and not args and "destination" not in kwargs:
            _state_dicts.append((weakref.ref(made), torch._C._autograd._get_sequence_nr()))
        return made

    return state_dict


def _make_load_state_dict(original: Any) -> Any:
    @functools.wraps(original)
    def load_state_dict(self: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        if not writes.is_traced():
            frame = _get_frame(1)
            taken = next((moment for kept, moment in reversed(_state_dicts) if kept() is state_dict), None)
            if taken is not None:
                _guarded(lambda: _check_kept(self, state_dict, taken, frame))
        return original(self, state_dict, *args, **kwargs)

    return load_state_dict


def _check_kept(module: Any, kept: Any, taken: int, frame: FrameType) -> None:
    """The kept dict holds this module's own parameters, and they were stepped since: it kept nothing."""
    own = {names.storage_of(parameter) for parameter in module.parameters()}
    if not any(isinstance(value, torch.Tensor) and names.storage_of(value) in own for value in kept.values()):
        return
    steps = [step for step in record.current().steps if step.moment > taken and step.frames and _steps_on(step, own)]
    places = frames_to_own_code(frame)
    call = sites.at_instruction(places[-1]).node if places else None
    name = ast.unparse(call.args[0]) if isinstance(call, ast.Call) and call.args else None
    mutations = {
        step.frames[-1]: Mutation(step.operation, sites.at_instruction(step.frames[-1]).site) for step in steps
    }
    why = (
        "state_dict() holds the parameters themselves, not copies. The optimizer has changed them in place since, so "
        "what was kept is what the model has now, and loading it back does nothing."
    )
    _tell("silent-other", Tensor(name), why, tuple(mutations.values()), None, _REMEDIES["state-dict"])


def _steps_on(step: record.Step, storages: set[int | None]) -> bool:
    parameters = (reference() for reference in step.parameters)
    return any(parameter is not None and names.storage_of(parameter) in storages for parameter in parameters)


# -- putting it in place ----------------------------------------------------------------------------------------------


def _make_numpy(original: Any) -> Any:
    @functools.wraps(original)
    def numpy(self: Any, *args: Any, **kwargs: Any) -> Any:
        array = original(self, *args, **kwargs)
        if not writes.is_traced() and type(self) in (torch.Tensor, torch.nn.Parameter):
            aliases.remember_array(array, self)
        return array

    return numpy


def _make_from_numpy(original: Any) -> Any:
    @functools.wraps(original)
    def from_numpy(array: Any) -> Any:
        tensor = original(array)
        if not writes.is_traced():
            aliases.remember_array(array, tensor)
        return tensor

    return from_numpy


def _make_register_hook(original: Any) -> Any:
    @functools.wraps(original)
    def register_hook(self: Any, hook: Any) -> Any:
        return original(self, hook if writes.is_traced() else _watched_hook(hook))

    return register_hook


def install() -> None:
    """Starts seeing what autograd cannot."""
    writes.on_hidden = note_hidden
    writes.replace(torch.Tensor, "data", DataAttribute(torch.Tensor.data))
    writes.replace(torch.Tensor, "numpy", _make_numpy(torch.Tensor.numpy))
    writes.replace(torch, "from_numpy", _make_from_numpy(torch.from_numpy))
    writes.replace(torch.Tensor, "register_hook", _make_register_hook(torch.Tensor.register_hook))
    writes.replace(torch.nn.Module, "state_dict", _make_state_dict(torch.nn.Module.state_dict))
    writes.replace(torch.nn.Module, "load_state_dict", _make_load_state_dict(torch.nn.Module.load_state_dict))
