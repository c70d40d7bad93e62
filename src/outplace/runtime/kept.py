"""What is kept by reference and changes under its keeper.

A `state_dict()` or a list of parameters that was not copied; one tensor many times in a list, or appended again and
again; a tensor in a Function's `ctx`, where PyTorch checks nothing; indices that occur twice where each was to count.
"""

from __future__ import annotations

import ast
import functools
import gc
import sys
from collections import deque
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import torch

from outplace.model import Mutation, SavedTensor, Tensor
from outplace.runtime import aliases, fast, graph, lost, names, record, silent, sites, verdict, writes
from outplace.runtime.aliases import Weak
from outplace.runtime.memory import PLAIN, unobserved
from outplace.runtime.record import Instruction, Write, frames_to_own_code

_get_frame = sys._getframe
_mode_active = torch._C._is_torch_function_mode_enabled
_next_number = torch._C._autograd._get_sequence_nr


# -- parameters -------------------------------------------------------------------------------------------------------

_taken: deque[tuple[Weak, int, Weak]] = deque(maxlen=64)
"""A tensor of each `state_dict()`, when it was taken, and whose it is."""


def _make_state_dict(original: Any) -> Any:
    @functools.wraps(original)
    def state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(self, *args, **kwargs)
        if not writes.is_traced() and not args and "destination" not in kwargs:
            first = next((value for value in made.values() if isinstance(value, torch.Tensor)), None)
            if first is not None:
                _taken.append((Weak(first), _next_number(), Weak(self)))
        return made

    return state_dict


def _make_load_state_dict(original: Any) -> Any:
    @functools.wraps(original)
    def load_state_dict(self: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        if not writes.is_traced() and hasattr(state_dict, "values"):
            held = {id(value) for value in state_dict.values()}
            taken = next(((moment, whose()) for first, moment, whose in reversed(_taken) if id(first()) in held), None)
            if taken is not None:
                frame = _get_frame(1)
                silent.guarded(lambda: _check_kept(self, state_dict, *taken, frame))
                verdict.raise_if_strict()
        return original(self, state_dict, *args, **kwargs)

    return load_state_dict


def _check_kept(module: Any, kept: Any, taken: int, whose: Any, frame: FrameType) -> None:
    """The kept dict holds this module's own parameters, and they were stepped since: it kept nothing."""
    own = {names.storage_of(parameter) for parameter in module.parameters()} - {None}  # wrappers have none
    given = {names.storage_of(value) for value in kept.values() if isinstance(value, torch.Tensor)}
    if not own & given:
        return
    if type(whose) is type(module) and whose is not module and own <= given:
        _report_shared_network(module, own, frame)
        return
    places = frames_to_own_code(frame)
    call = sites.at_instruction(places[-1]).node if places else None
    name = ast.unparse(call.args[0]) if isinstance(call, ast.Call) and call.args else None
    why = (
        "state_dict() holds the parameters themselves, not copies. They have been changed in place since, so what was "
        "kept is what the model has now, and loading it back does nothing."
    )
    mutations = _changes_of(own, taken)
    if mutations:
        verdict.tell("silent-other", Tensor(name), why, mutations, "Keep a copy: `copy.deepcopy(model.state_dict())`.")


def _report_shared_network(module: Any, own: set[int | None], frame: FrameType) -> None:
    mutations = _changes_of(own, -1)
    if mutations:
        stack = names.own_frames(None, frame)
        name = next((name for one in stack for name, value in one.f_locals.items() if value is module), None)
        why = (
            "This network has the very parameters of the one whose state it is given (`copy.copy` copies references, "
            "not parameters). The optimizer that steps one steps both, and loading the state does nothing."
        )
        remedy = "Give it parameters of its own: `copy.deepcopy(model)`."
        verdict.tell("silent-other", Tensor(name), why, mutations, remedy)


def _changes_of(storages: set[int | None], since: int) -> tuple[Mutation, ...]:
    """The optimizer steps on these storages."""
    steps = [step for step in record.current().steps if step.moment > since and step.frames]
    places = {step.frames[-1]: step for step in steps if _steps_on(step, storages)}
    return tuple(Mutation(step.operation, sites.at_instruction(place).site) for place, step in places.items())


def _steps_on(step: record.Step, storages: set[int | None]) -> bool:
    parameters = (reference() for reference in step.parameters)
    return any(parameter is not None and names.storage_of(parameter) in storages for parameter in parameters)


_receivers: deque[tuple[int, Callable[[], Any]]] = deque(maxlen=16)
"""What is about to be copied to; the calls may be nested."""


def _nobody() -> None:
    return None


def _note_source(source: Any, frame: FrameType) -> None:
    """`x.copy_(source)`: what is copied may be the very memory it is copied to."""
    where, target = 0, None
    while _receivers and where != id(frame):  # a call whose argument raised has left its receiver behind
        where, receiver = _receivers.pop()
        target = receiver()
    if where != id(frame) or target is None or type(source) not in PLAIN:
        return
    if target.numel() and _same_memory(source, target):
        silent.guarded(lambda: _report_own_copy(target, frame))
        verdict.raise_if_strict()


def _same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    with torch._C.DisableTorchFunction():
        strided = one.layout is torch.strided and other.layout is torch.strided
        return strided and one.data_ptr() == other.data_ptr() != 0 and one.shape == other.shape


def _report_own_copy(tensor: torch.Tensor, frame: FrameType) -> None:
    mutations = _changes_of({names.storage_of(tensor)}, -1)
    if mutations:
        located = sites.at_instruction((frame.f_code, frame.f_lasti), "copy_")
        name = ast.unparse(located.node.args[0]) if isinstance(located.node, ast.Call) and located.node.args else None
        why = (
            "What was kept is the parameter's own memory, not a copy of it. The optimizer has changed it in place "
            f"since, so copying it back at line {located.site.line} does nothing."
        )
        remedy = "Keep a copy: `[p.detach().clone() for p in model.parameters()]`."
        verdict.tell("silent-other", silent.described(tensor, name), why, mutations, remedy)


# -- what marked code shows us ---------------------------------------------------------------------------------------


def note_kept(value: Any, way: str) -> Any:
    """Called by marked code on `[x] * n`, on what is appended to a list, and on what a Function keeps in its ctx."""
    if not writes.is_traced():
        if way == "copy to":
            _receivers.append((id(_get_frame(1)), Weak(value) if type(value) in PLAIN else _nobody))
        elif way == "list":
            if len(value) > 1 and type(value[0]) in PLAIN:
                _remember_many(value[0])
        elif type(value) in PLAIN or way == "copied":
            if _mode_active():
                with torch._C.DisableTorchFunction():  # a mode of the user's must not see us
                    _WAYS[way](value, _get_frame(1))
            else:
                _WAYS[way](value, _get_frame(1))
    return value


def keeper() -> Callable[[Any, str], Any]:
    """The same, with the commonest answer (nothing to note) compiled, in a program that Dynamo does not read."""
    if fast.compiled is None or writes.is_traced is not bool:
        return note_kept
    fast.compiled.connect_kept(PLAIN, _mode_active, note_kept)
    keep: Callable[[Any, str], Any] = fast.compiled.keep
    return keep


# One tensor, many times over.


def _remember_many(tensor: torch.Tensor) -> None:
    key = id(tensor)
    writes.special[key] = Weak(tensor, lambda _: writes.special.pop(key, None))


def note_special(write: Write, tensor: torch.Tensor) -> None:
    """Gets the writes to a tensor that stands many times in a list, and each `set_`."""
    if write.operation == "set_":
        aliases.remember(tensor)  # it writes the memory of others from now on, with a version of its own
    elif write.frames:
        silent.guarded(lambda: _report_many(write, tensor))


def _report_many(write: Write, tensor: torch.Tensor) -> None:
    why = (
        "This one tensor stands in a list or dict many times (`[x] * n` copies the reference, not the tensor). A write "
        "to one of its entries is a write to all of them."
    )
    remedy = "Make one tensor for each entry: `[torch.zeros(3) for _ in range(n)]`."
    name = silent.target_of(write)
    verdict.tell("silent-other", silent.described(tensor, name), why, silent.mutations_of([write]), remedy)


# Appended again and again.

_appended: dict[Instruction, tuple[Weak, int, int]] = {}
"""For each appending line: what it appended last, with its version, and when it first appended that."""


def _note_appended(tensor: torch.Tensor, frame: FrameType) -> None:
    if tensor.is_inference() or tensor._version == 0:
        return  # most of what is appended, in recurrent models at every step: new results that nobody has written
    line = (frame.f_code, frame.f_lasti)
    known = _appended.get(line)
    if known is None or id(known[0]()) != id(tensor):
        _appended[line] = Weak(tensor), tensor._version, _next_number()
        if silent.worth_a_look(line) and _stands_last(tensor, line, frame):  # appended before anybody had written it
            silent.guarded(lambda: _tell_appended(tensor, _writes_of(tensor)[-tensor._version :]))
            verdict.raise_if_strict()
    elif known[1] != tensor._version and silent.worth_a_look(line):
        silent.guarded(lambda: _report_appended(tensor, known[2]))
        verdict.raise_if_strict()


def _report_appended(tensor: torch.Tensor, since: int) -> None:
    lists = [one for one in gc.get_referrers(tensor) if type(one) in (list, deque)]
    if not any(sum(item is tensor for item in one) >= 1 for one in lists):
        return
    _tell_appended(tensor, [one for one in _writes_of(tensor) if one.moment >= since])


def _writes_of(tensor: torch.Tensor) -> list[Write]:
    storage = names.storage_of(tensor)
    return [one for one in record.current().writes if one.storage == storage and one.frames]


def _tell_appended(tensor: torch.Tensor, written: list[Write]) -> None:
    if written:
        why = (
            "The list keeps references, not copies: each of its entries is this one tensor, which is changed in place "
            "between two of them. At the end all show its last values."
        )
        name = silent.target_of(written[-1])
        remedy = "Keep copies: `history.append(state.clone())`."
        verdict.tell("silent-other", silent.described(tensor, name), why, silent.mutations_of(written), remedy)


_lists: dict[Instruction, tuple[str, ...]] = {}
"""What each appending line calls its list: `path`, or `self.path`; nothing where it is no plain name."""


def _stands_last(tensor: torch.Tensor, line: Instruction, frame: FrameType) -> bool:
    """Is the tensor the last entry of the list that it is being appended to?"""
    if line not in _lists:
        _lists[line] = _list_at(line)
    first, *rest = _lists[line] or ("",)
    holder: Any = frame.f_locals.get(first, frame.f_globals.get(first))
    for attribute in rest:
        holder = getattr(holder, "__dict__", {}).get(attribute)
    return type(holder) in (list, deque) and bool(holder) and holder[-1] is tensor


def _list_at(line: Instruction) -> tuple[str, ...]:
    call = sites.at_instruction(line).node
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "append":
        holder, names_of = call.func.value, []
        while isinstance(holder, ast.Attribute):
            names_of.append(holder.attr)
            holder = holder.value
        return (holder.id, *reversed(names_of)) if isinstance(holder, ast.Name) else ()
    return ()


# Kept in a Function's ctx.

_in_ctx: deque[tuple[Weak, int, int, Instruction]] = deque(maxlen=1_000)


def _note_in_ctx(tensor: torch.Tensor, frame: FrameType) -> None:
    if not tensor.is_inference():
        _in_ctx.append((Weak(tensor), tensor._version, _next_number(), (frame.f_code, frame.f_lasti)))


def _changed_in_ctx() -> list[tuple[Weak, int, int, Instruction]]:
    return [entry for entry in _in_ctx if _has_moved(entry[0](), entry[1])]


def _has_moved(tensor: torch.Tensor | None, version: int) -> bool:
    return tensor is not None and tensor._version != version


def _ctx_has_changed() -> bool:
    return bool(_in_ctx) and bool(_changed_in_ctx())


def examine_ctx(nodes: Iterable[Any]) -> None:
    """A backward starts: has something changed that a Function of it keeps outside of `save_for_backward`?"""
    changed = _changed_in_ctx()
    for node in nodes:
        if not isinstance(node, torch.autograd.function.BackwardCFunction):
            continue
        number = graph.number_of(node) or 0
        attributes = [value for value in vars(node).values() if isinstance(value, torch.Tensor)]
        for reference, _, moment, place in changed:
            kept = reference()
            if kept is not None and moment >= number and any(kept is value for value in attributes):
                _report_in_ctx(node, kept, moment, place)


def _report_in_ctx(node: Any, kept: torch.Tensor, moment: int, place: Instruction) -> None:
    storage = names.storage_of(kept)
    written = [one for one in record.current().writes if one.storage == storage and one.moment >= moment and one.frames]
    if written:
        why = (
            "The Function keeps this tensor as an attribute of its ctx, where PyTorch does not check it. It was "
            "changed in place since, and backward computes with the changed values."
        )
        saver = SavedTensor(node.name(), "ctx", None, sites.at_instruction(place).site, graph.number_of(node))
        name = silent.target_of(written[-1])
        remedy = "Keep it with `ctx.save_for_backward(...)`: then PyTorch checks it; and write out of place."
        found = silent.described(kept, name)
        verdict.tell("silent-other", found, why, silent.mutations_of(written), remedy, saved_by=saver)


_WAYS: dict[str, Any] = {
    "append": _note_appended,
    "appendleft": _note_appended,
    "fromkeys": lambda tensor, _: _remember_many(tensor),
    "copied": _note_source,
    "ctx": _note_in_ctx,
    "grad": lost.note_gradient,
}


# -- repeated indices -------------------------------------------------------------------------------------------------


def note_index(index: Any) -> Any:
    """Called by marked code on the index of `y[index] += v`."""
    if not writes.is_traced():
        parts = index if type(index) is tuple else (index,)
        if any(type(part) is torch.Tensor for part in parts):
            frame = _get_frame(1)
            place = (frame.f_code, frame.f_lasti)
            if silent.worth_a_look(place):
                silent.guarded(lambda: _check_index(parts, place))
                verdict.raise_if_strict()
    return index


def _check_index(parts: tuple[Any, ...], place: Instruction) -> None:
    with unobserved():
        tensors = [part for part in parts if type(part) is torch.Tensor and part.dtype in (torch.int64, torch.int32)]
        if len(tensors) != len(parts) or not tensors:
            return
        rows = torch.stack([part.reshape(-1) for part in torch.broadcast_tensors(*tensors)])
        repeated = rows.shape[1] - torch.unique(rows, dim=1).shape[1]
    if not repeated:
        return
    located = sites.at_instruction(place, "__setitem__")
    name = None
    if isinstance(located.node, ast.AugAssign) and isinstance(located.node.target, ast.Subscript):
        name = ast.unparse(located.node.target.value)
    times = "one index occurs" if repeated == 1 else f"{repeated} indices occur"
    why = (
        f"`y[index] += v` reads, adds and writes back once for each place, and {times} again: of several values for "
        "one place only one is added, and only that one has a gradient."
    )
    remedy = "Add them all: `y = y.index_add(0, index, v)`, or `y.index_put((index,), v, accumulate=True)`."
    verdict.tell("silent-other", Tensor(name), why, (Mutation("__setitem__", located.site),), remedy)


def install() -> None:
    """Starts looking."""
    writes.on_special = note_special
    writes.replace(torch.nn.Module, "state_dict", _make_state_dict(torch.nn.Module.state_dict))
    writes.replace(torch.nn.Module, "load_state_dict", _make_load_state_dict(torch.nn.Module.load_state_dict))
    silent.also_look(_in_ctx, _ctx_has_changed, examine_ctx)
    writes.at_uninstall(silent.look_alone)
