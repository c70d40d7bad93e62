"""Records every in-place operation that Python code calls.

A descriptor on `torch.Tensor` sees methods and augmented operators: looking up `x.add_` records the write and returns
torch's own bound method. So the user's traceback has no frame of outplace, and `torch.Tensor.add_` stays the same
object (Dynamo, TorchScript and `__torch_function__` see no difference). Item assignment and functions (`torch.relu_`,
`_foreach_add_` ...) are wrapped, because their arguments are needed. Only writing operations are patched. A program
calls few of them in a step, and nothing else becomes slower.
"""

from __future__ import annotations

import dis
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType, MethodType, ModuleType
from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function

from outplace.knowledge.by_hand import IN_PLACE_BY_NAME, MOVE_NO_VERSION
from outplace.runtime.patches import caller_frames
from outplace.runtime.patches.table import Patch, Undo, registered, replaced, replaced_all
from outplace.runtime.record import log, native, operator_calls, untracked_aliases
from outplace.runtime.record.events import events
from outplace.runtime.record.log import WHOLE, Instruction, Region, Write, frames_to_own_code
from outplace.runtime.record.untracked_aliases import Weak, is_untracked
from outplace.runtime.record.user_files import own_files

_AUGMENTED = ("add", "sub", "mul", "truediv", "div", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift")

_INDUCTOR = os.path.join("torch", "_inductor", "")
_get_frame = sys._getframe
_next_number = torch._C._autograd._get_sequence_nr
_grad_enabled = torch.is_grad_enabled
_is_compiling = torch.compiler.is_dynamo_compiling
_mode_active = torch._C._is_torch_function_mode_enabled
_plain_types = frozenset({torch.Tensor, torch.nn.Parameter})
_state = log.state


is_traced: Callable[[], bool] = log.is_traced
"""Is this call traced, by Dynamo or TorchScript? Then the trace must have none of outplace's work."""


def _is_of_a_trace(kind: type) -> bool:
    """Is it a class of the tensors that a compiler traces with? Nothing of the program is written then.

    Other classes that wrap tensors (distributed, quantized) are the program's own. Autograd counts the versions of the
    outer tensor, and all views of it have the same storage.
    """
    return kind.__module__.startswith("torch._subclasses.")


def _identity(tensor: torch.Tensor) -> tuple[int, int | None] | None:
    """The storage and version of a tensor that has none, or that a transform of `torch.func` wraps."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    try:
        storage = tensor.untyped_storage()._cdata
    except (RuntimeError, NotImplementedError):
        if tensor.layout is torch.strided:
            return None
        storage = -tensor._cdata  # sparse: it has no storage, so the tensor itself identifies it
    try:
        return storage, tensor._version
    except RuntimeError:  # inference tensors have no version
        return storage, None


def note(tensor: Any, operation: str, frame: FrameType, index: Any = WHOLE) -> None:
    """Records that `operation`, called from `frame`, is about to write `tensor`, or the part at `index`."""
    frames = frames_of(frame)
    if frames is not None:
        note_frames(tensor, operation, frames, index)


def frames_of(frame: FrameType) -> tuple[Instruction, ...] | None:
    """The frames from the write out to the user's code; None if the program itself writes nothing.

    That is an optimizer step, which is recorded as one, and Inductor's runtime, which fills buffers of its own. If a
    detector copied such a buffer, the copy would lie in the memory pool of a CUDA graph, and Inductor refuses that.
    """
    code = frame.f_code
    if own_files[code.co_filename]:
        return ((code, frame.f_lasti),)
    return None if _state.steps or _INDUCTOR in code.co_filename else frames_to_own_code(frame)


def note_frames(tensor: Any, operation: str, frames: tuple[Instruction, ...], index: Any = WHOLE) -> None:
    """Like `note`, if the frames are already known."""
    plain = type(tensor) in _plain_types
    if not plain and (not isinstance(tensor, torch.Tensor) or _is_of_a_trace(type(tensor))):
        return
    if not plain or _mode_active():
        with torch._C.DisableTorchFunction():  # no mode or subclass of the user may see this
            _add_write(tensor, operation, frames, index)
    else:
        _add_write(tensor, operation, frames, index)


def _add_write(tensor: torch.Tensor, operation: str, frames: tuple[Instruction, ...], index: Any) -> None:
    version: int | None
    try:
        storage, version = tensor.untyped_storage()._cdata, tensor._version
    except (RuntimeError, NotImplementedError):
        identity = _identity(tensor)
        if identity is None:
            return
        storage, version = identity
    region: Region | None = None
    if index is not None and (index is not WHOLE or tensor._is_view()):
        region = Region(index, tensor.storage_offset(), tensor.size(), tensor.stride())
    call = operator_calls.outermost(storage) if operator_calls.running else None
    if call is not None and frames is not call.frames:
        operation, frames = call.operation, call.frames_of(frames)
    write = Write(storage, version, _next_number(), operation, frames, region, _grad_enabled(), call)
    if operation in MOVE_NO_VERSION or is_untracked(tensor):
        on_hidden(write, tensor)
    else:
        log.add_write(write)
    if operation == "set_":
        untracked_aliases.remember(tensor)  # from now on it writes the memory of others, with its own version counter
    elif special and storage in special:
        for listener in events.special_write:
            listener(write, tensor)
    for listener in _interested(write, tensor):
        listener(write, tensor)


def _interested(write: Write, tensor: torch.Tensor) -> Iterable[Callable[..., None]]:
    """Who wants to know of a write to such a tensor."""
    if not tensor.requires_grad:
        return events.plain_write
    if write.grad_enabled:
        return events.graph_write
    return () if tensor.is_leaf else events.no_grad_write


def _note_each(tensors: Iterable[Any], operation: str, frames: tuple[Instruction, ...]) -> None:
    """Like `note_frames`, for several whole tensors: many programs clip all gradients at every step."""
    plain = not (_mode_active() or operation in MOVE_NO_VERSION)
    moment, grad_enabled = _next_number(), _grad_enabled()
    for tensor in tensors:
        if plain and type(tensor) in _plain_types and not tensor._is_view() and not is_untracked(tensor):
            try:
                storage, version = tensor.untyped_storage()._cdata, tensor._version
            except (RuntimeError, NotImplementedError):
                note_frames(tensor, operation, frames)
            else:
                if (special and storage in special) or operator_calls.running:
                    note_frames(tensor, operation, frames)
                else:
                    log.add_write(_new(Write, (storage, version, moment, operation, frames, None, grad_enabled, None)))
        else:
            note_frames(tensor, operation, frames)


_new: Any = tuple.__new__

on_hidden: Callable[[Write, torch.Tensor], None] = lambda write, tensor: log.add_write(write)  # noqa: E731
"""Called before each write that autograd cannot see."""

special: dict[int, Callable[[], Any]] = {}
"""Storages whose every write is an event, each with a weak reference to a tensor in it."""


def watch_storage(tensor: torch.Tensor) -> None:
    """Makes each write to this tensor's memory an event, while the tensor is alive."""
    storage, watched = tensor.untyped_storage()._cdata, special  # at exit Python may have emptied this module already
    special[storage] = Weak(tensor, lambda _: watched.pop(storage, None))


def leave_step() -> None:
    """Code of the user runs again. So the current step has ended, or continues on the slower path."""
    _state.stepping = 0


class WritingMethod:
    """Replaces a writing method of `torch.Tensor`: records the write, then returns torch's own method."""

    __slots__ = ("bind", "method", "name", "taken")

    def __init__(self, name: str, method: Any) -> None:
        self.name, self.method, self.bind = name, method, method.__get__
        self.taken = _make_taken(name, method)

    def __get__(self, tensor: Any, owner: type | None = None) -> Any:
        if tensor is None:
            return self.method
        # An optimizer that loops over its parameters comes here hundreds of times a step, so this path is short.
        if _state.stepping:
            return self.bind(tensor, owner)
        if not is_traced() and not (_state.steps and not own_files[_get_frame(1).f_code.co_filename]):
            frame = _get_frame(1)
            if _only_taken(frame):
                return MethodType(self.taken, tensor)
            note(tensor, self.name, frame)
        return self.bind(tensor, owner)


def with_short_way(method: Any) -> Any:
    """The same descriptor, with the path for optimizer steps compiled. A step has hundreds of look-ups."""
    if native.compiled is None or not isinstance(method, WritingMethod):
        return method
    return native.compiled.Lookup(method.method, method.__get__)


def _make_taken(name: str, method: Any) -> Callable[..., Any]:
    """For a method that is looked up first (`add = x.add_`) and called later, perhaps many times."""

    def taken(self: Any, *args: Any, **kwargs: Any) -> Any:
        frame = _get_frame(1)
        note(self, name, frame)
        return caller_frames.call(frame, method, (self, *args), kwargs)

    taken.__name__, taken.__qualname__, taken.__doc__ = name, method.__qualname__, method.__doc__
    return taken


_taken: dict[tuple[int, int], tuple[CodeType, bool]] = {}


def _only_taken(frame: FrameType) -> bool:
    """Is the attribute only loaded here, not called immediately?"""
    code, offset = frame.f_code, frame.f_lasti
    known = _taken.get((id(code), offset))
    if known is None:
        load = next((found for found in dis.get_instructions(code) if found.offset == offset), None)
        is_call = (
            load is None or load.opname != "LOAD_ATTR" or (sys.version_info >= (3, 12) and bool((load.arg or 0) & 1))
        )
        known = _taken[id(code), offset] = (code, not is_call)  # keeps the code object: its id is not reused
    return known[1]


_ENDS = (int, type(None))


def _simple_index(index: Any) -> Any:
    """The index as a tuple, if it defines the region alone; None if the region depends on a tensor."""
    parts = index if type(index) is tuple else (index,)
    for part in parts:
        kind = type(part)
        if kind is slice:
            if not (type(part.start) in _ENDS and type(part.stop) in _ENDS and type(part.step) in _ENDS):
                return None
        elif kind is not int and part is not None and part is not Ellipsis:
            return None
    return parts


def _note_item(tensor: Any, index: Any) -> None:
    if not is_traced():
        note(tensor, "__setitem__", _get_frame(1), _simple_index(index))


def _make_setitem(original: Any) -> Any:
    if native.compiled is not None:
        return native.compiled.SetItem(original, _note_item)

    def __setitem__(self: Any, index: Any, value: Any) -> None:
        if _is_compiling():
            original(self, index, value)
        else:
            frame = _get_frame(1)
            if not is_traced():
                note(self, "__setitem__", frame, _simple_index(index))
            caller_frames.call(frame, original, (self, index, value), {})

    return __setitem__


_overridden: list[str] = []
"""The functions that a `__torch_function__` is handling now."""


def _make_function(name: str, original: Any) -> Callable[..., Any]:
    def writing_function(*args: Any, **kwargs: Any) -> Any:
        # An optimizer that writes all its parameters at once. Dynamo of torch 2.6 cannot read `stepping`.
        if args and type(args[0]) is list and not is_traced() and _state.stepping and not has_torch_function(args[0]):
            return original(*args, **kwargs)
        if not is_traced() and name not in _overridden:
            target = args[0] if args else kwargs.get("input", kwargs.get("self"))
            targets = target if isinstance(target, list | tuple) else (target,)
            frame = _get_frame(1)
            frames = frames_of(frame)
            if frames is not None and targets is target:
                _note_each(targets, name, frames)
            elif frames is not None:
                note_frames(target, name, frames)
            if has_torch_function(targets) or has_torch_function(args):
                # Modes and subclasses must receive this very function: they compare it with `torch.relu_`.
                _overridden.append(name)
                try:
                    return handle_torch_function(writing_function, (*targets, *args), *args, **kwargs)
                finally:
                    _overridden.pop()
            return caller_frames.call(frame, original, args, kwargs)
        if _is_compiling() or name in _overridden:
            return original(*args, **kwargs)
        return caller_frames.call(_get_frame(1), original, args, kwargs)  # TorchScript writes the line into its graph

    writing_function.__name__ = writing_function.__qualname__ = name
    writing_function.__doc__ = original.__doc__
    return writing_function


def note_out(target: Any) -> Any:
    """Called by marked code around the value of `out=`."""
    if not is_traced():
        frame = _get_frame(1)
        for tensor in target if isinstance(target, list | tuple) else (target,):
            if isinstance(tensor, torch.Tensor):
                note(tensor, "out=", frame)
    return target


# -- leaves ---------------------------------------------------------------------------------------------------------

_leaves: list[tuple[weakref.ref[torch.Tensor], Instruction]] = []


def note_leaf(tensor: Any) -> Any:
    """Called by marked code around `nn.Parameter(...)` and `requires_grad=True`."""
    if not is_traced() and isinstance(tensor, torch.Tensor):
        frame = _get_frame(1)
        if len(_leaves) > 20_000:
            _leaves[:] = [entry for entry in _leaves if entry[0]() is not None][-10_000:]
        _leaves.append((weakref.ref(tensor), (frame.f_code, frame.f_lasti)))
    return tensor


def where_leaf_was_made(tensor: torch.Tensor) -> Instruction | None:
    """The instruction of the user's code that made this leaf, if it was recorded."""
    return next((place for leaf, place in reversed(_leaves) if leaf() is tensor), None)


# -- putting it in place --------------------------------------------------------------------------------------------


def patches() -> Iterator[Patch]:
    """The patches of torch that record writes."""
    why = "Looking up an in-place method notes the write; torch's own bound method is handed out."
    yield replaced_all("torch.Tensor.*_", _methods, why, "descriptor")
    why = "`x[i] = v` is noted with its index before torch's own function is called."
    yield replaced(torch.Tensor, "__setitem__", _make_setitem, why)
    wrapped: dict[int, Callable[..., Any]] = {}
    targets = "torch.*_, torch.nn.functional.*_, torch._C._nn.*_, torch._VF.*_"
    why = "In-place functions and `_foreach_*_` are noted with the tensors they write."
    yield replaced_all(targets, lambda: _functions(wrapped), why)
    yield declared_to_torchscript(wrapped, "write")


def _methods() -> Iterator[tuple[Any, str, Any]]:
    for name in _writing_methods():
        yield torch.Tensor, name, with_short_way(WritingMethod(name, getattr(torch.Tensor, name)))


def _writing_methods() -> list[str]:
    methods = [
        name
        for name in dir(torch.Tensor)
        if name.endswith("_") and not name.endswith("__") and name not in IN_PLACE_BY_NAME
        if callable(getattr(torch.Tensor, name))
    ]
    return methods + [f"__i{name}__" for name in _AUGMENTED if hasattr(torch.Tensor, f"__i{name}__")]


def _writing_functions(module: Any) -> list[str]:
    return [
        name
        for name in dir(module)
        if name.endswith("_") and not name.endswith("__") and name not in IN_PLACE_BY_NAME
        if type(getattr(module, name)).__name__ in ("builtin_function_or_method", "method_descriptor")
    ]


def _functions(wrapped: dict[int, Callable[..., Any]]) -> Iterator[tuple[Any, str, Any]]:
    """Each writing function, wherever torch's Python code looks it up. `wrapped` maps original ids to wrappers."""
    places: list[ModuleType] = [torch, torch._C._nn, torch.nn.functional]
    for module in places:
        for name in _writing_functions(module):
            original = getattr(module, name)
            if id(original) not in wrapped:
                wrapped[id(original)] = _make_function(name, original)
                wrapped[id(original)].__module__ = module.__name__  # the name under which it is pickled
            yield module, name, wrapped[id(original)]
    for name in _writing_functions(torch._C._VariableFunctions):  # F.dropout and others look here
        original = getattr(torch._C._VariableFunctions, name)
        yield torch._VF, name, wrapped.get(id(original)) or _make_function(name, original)


def declared_to_torchscript(wrapped: dict[int, Callable[..., Any]], which: str) -> Patch:
    """Makes TorchScript know outplace's functions. `wrapped` maps the ids of torch's own to those in their place."""
    why = f"TorchScript knows builtins by identity; our functions that {which} must mean the same operations to it."
    target = "torch.jit._builtins._builtin_table"
    return registered(target, lambda: _tell_torchscript(wrapped), why, "The entries are removed.")


def _tell_torchscript(wrapped: dict[int, Callable[..., Any]]) -> Undo:
    try:
        from torch.jit._builtins import _get_builtin_table

        table = _get_builtin_table()
    except ImportError:  # a torch without TorchScript does not need this
        return bool
    added = {id(function): table[original] for original, function in wrapped.items() if original in table}
    table.update(added)
    return lambda: [table.pop(key) for key in added]


def skip_when_traced() -> None:
    """From now on every hook in this module tests whether it is traced."""
    global is_traced
    is_traced = log.is_traced
