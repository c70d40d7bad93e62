"""What is kept by reference and changes under its keeper.

A `state_dict()` or a list of parameters that was not copied; one tensor many times in a list; a tensor in a Function's
`ctx`, where PyTorch checks nothing; indices that occur twice where each was to count. (`appended` are those that are
kept again and again.)
"""

from __future__ import annotations

import ast
import functools
import gc
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any

import torch

from outplace.knowledge.silent_rules.functions import TENSOR_KEPT_IN_CTX
from outplace.knowledge.silent_rules.lists import SAME_TENSOR_REPEATED
from outplace.knowledge.silent_rules.lost import REPEATED_INDEX
from outplace.knowledge.silent_rules.two_names import PARAMETERS_BY_REFERENCE, STATE_DICT_BY_REFERENCE
from outplace.model import Mutation, SavedTensor, Tensor
from outplace.runtime.locate import graph, names, sites
from outplace.runtime.locate.graph import is_wrapped
from outplace.runtime.patches import caller_frames, tensor_writes
from outplace.runtime.patches.table import Patch, replaced, slot
from outplace.runtime.record import log, native, untracked_aliases
from outplace.runtime.record.log import Instruction, Write, frames_to_own_code
from outplace.runtime.record.snapshots import PLAIN, same_piece, unobserved
from outplace.runtime.record.untracked_aliases import Weak
from outplace.runtime.silent import reporting, scan
from outplace.runtime.silent.rules import (
    parameter_replaced,
    same_buffer_appended,
    same_tensor_appended,
    shallow_model_copy,
    state_dict_mutated,
)

_get_frame = sys._getframe
_mode_active = torch._C._is_torch_function_mode_enabled
_next_number = torch._C._autograd._get_sequence_nr


# -- parameters -------------------------------------------------------------------------------------------------------

_taken: deque[tuple[Weak, int, int, Weak]] = deque(maxlen=64)
"""A tensor of each `state_dict()` with its version, when it was taken, and whose it is."""


def _make_state_dict(original: Any) -> Any:
    @functools.wraps(original)
    def state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
        if tensor_writes.is_traced():
            return original(self, *args, **kwargs)
        made = caller_frames.call(_get_frame(1), original, (self, *args), kwargs)
        if state_dict_mutated.is_waiting():
            scan.guarded(lambda: state_dict_mutated.note_taken(self))
        if not args and "destination" not in kwargs:
            first = next((value for value in made.values() if isinstance(value, torch.Tensor)), None)
            if first is not None:
                with unobserved():
                    version = -1 if first.is_inference() else first._version
                _taken.append((Weak(first), version, _next_number(), Weak(self)))
        return made

    return state_dict


def _make_load_state_dict(original: Any) -> Any:
    @functools.wraps(original)
    def load_state_dict(self: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        if state_dict_mutated.is_waiting() and not tensor_writes.is_traced():
            scan.guarded(lambda: state_dict_mutated.note_loaded(self))
        if not tensor_writes.is_traced() and hasattr(state_dict, "values"):
            held = {id(value) for value in state_dict.values()}
            taken = next((entry for entry in reversed(_taken) if id(entry[0]()) in held), None)
            if taken is not None:
                first, version, moment, whose = taken
                # No node may have been made between: then the version tells which of the two came first.
                since = moment - 1 if _has_moved(first(), version) and version >= 0 else moment
                frame = _get_frame(1)
                scan.guarded(lambda: _check_kept(self, state_dict, since, whose(), frame))
                reporting.raise_if_strict()
        return original(self, state_dict, *args, **kwargs)

    return load_state_dict


def _check_kept(module: Any, kept: Any, taken: int, whose: Any, frame: FrameType) -> None:
    """The kept dict holds this module's own parameters, and they were stepped since: it kept nothing."""
    own = {names.storage_of(parameter) for parameter in module.parameters()} - {None}  # wrappers have none
    given = {names.storage_of(value) for value in kept.values() if isinstance(value, torch.Tensor)}
    if not own & given:
        state_dict_mutated.note(kept, taken)
        return
    if type(whose) is type(module) and whose is not module and own <= given:
        shallow_model_copy.report(module, whose, shallow_model_copy.changes_of(own, -1), frame)
        return
    places = frames_to_own_code(frame)
    call = sites.at_instruction(places[-1]).node if places else None
    name = ast.unparse(call.args[0]) if isinstance(call, ast.Call) and call.args else None
    mutations = shallow_model_copy.changes_of(own, taken)
    if mutations:
        reporting.tell(STATE_DICT_BY_REFERENCE, Tensor(name), mutations)


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
    if same_piece(source, target):
        scan.guarded(lambda: _report_own_copy(target, frame))
        reporting.raise_if_strict()


def note_given_back(tensor: torch.Tensor, value: torch.Tensor, frame: FrameType) -> None:
    """`p.data = value`, where the value is an alias that `.data` handed out before the last backward."""
    if type(tensor) in PLAIN and same_piece(value, tensor):
        scan.guarded(lambda: _report_own_copy(tensor, frame))
        reporting.raise_if_strict()


def _report_own_copy(tensor: torch.Tensor, frame: FrameType) -> None:
    mutations = shallow_model_copy.changes_of({names.storage_of(tensor)}, -1)
    if mutations:
        located = sites.at_instruction((frame.f_code, frame.f_lasti), "copy_")
        assigned = located.statement.value if isinstance(located.statement, ast.Assign) else None
        source = located.node.args[0] if isinstance(located.node, ast.Call) and located.node.args else assigned
        name = None if source is None else ast.unparse(source)
        words = {"line": located.site.line}
        reporting.tell(PARAMETERS_BY_REFERENCE, names.described(tensor, name), mutations, words)


# -- what marked code shows us ---------------------------------------------------------------------------------------


def note_kept(value: Any, way: str) -> Any:
    """Called by marked code on `[x] * n`, on what is appended to a list, and on what a Function keeps in its ctx."""
    if not tensor_writes.is_traced():
        if way == "copy to":
            _receivers.append((id(_get_frame(1)), Weak(value) if type(value) in PLAIN else _nobody))
        elif way == "list":
            if type(value) is list and len(value) > 1 and value[0] is value[1] and type(value[0]) in PLAIN:
                _remember_many(value[0])
        elif way in _OF_OTHERS:
            _OF_OTHERS[way](value, _get_frame(1))
        elif type(value) in PLAIN or way == "copied":
            if _mode_active():
                with torch._C.DisableTorchFunction():  # a mode of the user's must not see us
                    _WAYS[way](value, _get_frame(1))
            else:
                _WAYS[way](value, _get_frame(1))
        elif way in ("append", "appendleft"):
            if isinstance(value, tuple):  # a namedtuple, say
                same_tensor_appended.note_items(tuple(value), _get_frame(1))
            elif same_buffer_appended.is_array(value):
                same_buffer_appended.note(value, _get_frame(1))
    return value


def keeper() -> Callable[[Any, str], Any]:
    """The same, with the commonest answer (nothing to note) compiled, in a program that Dynamo does not read."""
    if native.compiled is None or tensor_writes.is_traced is not bool:
        return note_kept
    native.compiled.connect_kept(PLAIN, _mode_active, note_kept, untracked_aliases.untracked)
    keep: Callable[[Any, str], Any] = native.compiled.keep
    return keep


# One tensor, many times over.


def _remember_many(tensor: torch.Tensor) -> None:
    key = id(tensor)
    tensor_writes.special[key] = Weak(tensor, lambda _: tensor_writes.special.pop(key, None))


def note_special(write: Write, tensor: torch.Tensor) -> None:
    """Gets the writes to a tensor that stands many times in a list, and each `set_`."""
    if write.operation == "set_":
        untracked_aliases.remember(tensor)  # it writes the memory of others from now on, with a version of its own
    elif write.frames and scan.worth_a_look(write.frames[-1]):
        scan.guarded(lambda: _report_many(write, tensor))


def _report_many(write: Write, tensor: torch.Tensor) -> None:
    if not _stands_many_times(tensor):
        return
    found = names.described(tensor, scan.target_of(write))
    reporting.tell(SAME_TENSOR_REPEATED, found, scan.mutations_of([write]))


def _stands_many_times(tensor: torch.Tensor) -> bool:
    """Does it still? Its entries may all have got other tensors since."""
    for holder in gc.get_referrers(tensor):
        held = holder.values() if type(holder) is dict else holder if type(holder) in (list, tuple) else ()
        if sum(one is tensor for one in held) > 1:
            return True
    return False


# Kept in a Function's ctx.

_in_ctx: deque[tuple[Weak, int, int, Instruction]] = deque(maxlen=1_000)


def _note_in_ctx(tensor: torch.Tensor, frame: FrameType) -> None:
    if not tensor.is_inference():
        _in_ctx.append((Weak(tensor), tensor._version, _next_number(), (frame.f_code, frame.f_lasti)))


def _changed_in_ctx() -> list[tuple[Weak, int, int, Instruction]]:
    return [entry for entry in _in_ctx if _has_moved(entry[0](), entry[1])]


def _has_moved(tensor: torch.Tensor | None, version: int) -> bool:
    with torch._C.DisableTorchFunction():
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
    written = [one for one in log.current().writes if one.storage == storage and one.moment >= moment and one.frames]
    if written:
        saver = SavedTensor(node.name(), "ctx", None, sites.at_instruction(place).site, graph.number_of(node))
        name = scan.target_of(written[-1])
        found = names.described(kept, name)
        reporting.tell(TENSOR_KEPT_IN_CTX, found, scan.mutations_of(written), saved_by=saver)


_WAYS: dict[str, Any] = {
    "append": same_tensor_appended.note,
    "appendleft": same_tensor_appended.note,
    "fromkeys": lambda tensor, _: _remember_many(tensor),
    "copied": _note_source,
    "ctx": _note_in_ctx,
    "grad": parameter_replaced.note_gradient,
}

_OF_OTHERS: dict[str, Any] = {
    "items": same_tensor_appended.note_items,
    "first of a pair": shallow_model_copy.note_first,
    "second of a pair": shallow_model_copy.note_second,
}
"""Those that look at what is no tensor."""


# -- repeated indices -------------------------------------------------------------------------------------------------


def note_index(index: Any) -> Any:
    """Called by marked code on the index of `y[index] += v`."""
    if not tensor_writes.is_traced():
        parts = index if type(index) is tuple else (index,)
        if any(type(part) is torch.Tensor for part in parts):
            frame = _get_frame(1)
            place = (frame.f_code, frame.f_lasti)
            if scan.worth_a_look(place):
                scan.guarded(lambda: _check_index(parts, place))
                reporting.raise_if_strict()
    return index


def _check_index(parts: tuple[Any, ...], place: Instruction) -> None:
    with unobserved():
        tensors = [part for part in parts if type(part) is torch.Tensor and part.dtype in (torch.int64, torch.int32)]
        if len(tensors) != len(parts) or not tensors or any(map(is_wrapped, tensors)):
            return
        rows = torch.stack([part.reshape(-1) for part in torch.broadcast_tensors(*tensors)])
        repeated = rows.shape[1] - torch.unique(rows, dim=1).shape[1]
    if not repeated:
        return
    located = sites.at_instruction(place, "__setitem__")
    statement = located.statement
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    name = next((ast.unparse(target.value) for target in targets if isinstance(target, ast.Subscript)), None)
    times = "one index occurs" if repeated == 1 else f"{repeated} indices occur"
    mutations = (Mutation("repeated index", located.site),)
    reporting.tell(REPEATED_INDEX, Tensor(name), mutations, {"times": times})


def install() -> None:
    """Starts looking."""
    scan.also_look(_in_ctx, _ctx_has_changed, examine_ctx)


def patches() -> Iterator[Patch]:
    """What is changed in torch, and in the record."""
    why = "Gets the writes to a tensor that stands many times in a list, and each `set_`."
    yield slot(tensor_writes, "on_special", note_special, why).clearing(tensor_writes.special, _in_ctx, _receivers)
    why = "A state dict that is kept holds the parameters themselves, not copies."
    yield replaced(torch.nn.Module, "state_dict", _make_state_dict, why).clearing(_taken)
    why = "A state dict that is loaded back may have changed since it was taken."
    yield replaced(torch.nn.Module, "load_state_dict", _make_load_state_dict, why)
