"""Sees every in-place operation that Python code calls, and notes it in the record.

Methods and augmented operators are seen by a descriptor on `torch.Tensor`: looking up `x.add_` notes the write and hands
out torch's own bound method. So no frame of ours stands in the user's traceback, and `torch.Tensor.add_` itself stays the
very object it was (Dynamo, TorchScript and `__torch_function__` see no difference). Item assignment and functions
(`torch.relu_`, `_foreach_add_` ...) are wrapped, because there the arguments matter. Only writing operations are
touched: a program has few of them a step, and nothing else is slowed.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from array import array
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

import torch

from outplace.runtime import record
from outplace.runtime.record import WHOLE, Instruction, Region, Step, Write, frames_to_own_code
from outplace.runtime.usercode import own_files

# In-place in name only: they change no value that a graph could need.
_NOT_WRITES = {"requires_grad_", "share_memory_", "retain_grad_", "rename_", "_coalesced_"}
_AUGMENTED = ("add", "sub", "mul", "truediv", "div", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift")

_get_frame = sys._getframe
_next_number = torch._C._autograd._get_sequence_nr
_grad_enabled = torch.is_grad_enabled
_mode_active = torch._C._is_torch_function_mode_enabled
_plain_types = frozenset({torch.Tensor, torch.nn.Parameter})
_NOTHING: contextlib.AbstractContextManager[None] = contextlib.nullcontext()


class _Stepping:
    """Is a library's optimizer stepping? Its writes are noted as one step, not one by one."""

    depth = 0


is_traced: Callable[[], bool] = torch.compiler.is_dynamo_compiling
"""Is Dynamo reading this call instead of running it? It must then see nothing of what we do."""


def _is_wrapper(kind: type) -> bool:
    """Is it a tensor that only stands for others (fake, functional, distributed)? Then what it wraps is written."""
    return getattr(kind, "__torch_dispatch__", None) is not torch._C._disabled_torch_dispatch_impl


def _identity(tensor: torch.Tensor) -> tuple[int, int | None] | None:
    """The tensor's storage and version; None for tensors that have none (those inside functorch transforms)."""
    try:
        storage = tensor.untyped_storage()._cdata
    except (RuntimeError, NotImplementedError):
        if tensor.layout is torch.strided:
            return None
        storage = -tensor._cdata  # sparse: no storage of its own, the tensor itself stands for it
    try:
        return storage, tensor._version
    except RuntimeError:  # inference tensors have no version
        return storage, None


def note(tensor: Any, operation: str, frame: FrameType, index: Any = WHOLE) -> None:
    """Notes that `operation`, called from `frame`, is about to write `tensor` (or the part of it that `index` names)."""
    if type(tensor) not in _plain_types and not isinstance(tensor, torch.nn.Parameter):
        if not isinstance(tensor, torch.Tensor) or _is_wrapper(type(tensor)):
            return
    code = frame.f_code
    frames: tuple[Instruction, ...]
    if own_files[code.co_filename]:
        frames = ((code, frame.f_lasti),)
    elif _Stepping.depth:
        return
    else:
        frames = frames_to_own_code(frame)
    with_modes_off = torch._C.DisableTorchFunction() if _mode_active() else _NOTHING  # a user's mode must not see us
    with with_modes_off:
        identity = _identity(tensor)
        if identity is not None:
            region = _region(tensor, index)
            record.add_write(Write(*identity, _next_number(), operation, frames, region, _grad_enabled()))


def _region(tensor: torch.Tensor, index: Any) -> Region | None:
    """Which part of its storage a write reaches; None where that is the whole tensor, or a tensor decides it."""
    if index is None or (index is WHOLE and not tensor._is_view()):
        return None
    return Region(index, tensor.storage_offset(), tuple(tensor.size()), tensor.stride())


class WritingMethod:
    """Stands in `torch.Tensor` for a writing method: notes the write, then hands out torch's own method."""

    __slots__ = ("method", "name")

    def __init__(self, name: str, method: Any) -> None:
        self.name, self.method = name, method

    def __get__(self, tensor: Any, owner: type | None = None) -> Any:
        if tensor is None:
            return self.method
        if not is_traced():
            note(tensor, self.name, _get_frame(1))
        return self.method.__get__(tensor, owner)


def _simple_index(index: Any) -> Any:
    """The index as a tuple, where it says by itself which region it means; None where a tensor decides."""
    parts = index if type(index) is tuple else (index,)
    for part in parts:
        kind = type(part)
        if kind is slice:
            if not all(type(end) in (int, type(None)) for end in (part.start, part.stop, part.step)):
                return None
        elif kind is not int and part is not None and part is not Ellipsis:
            return None
    return parts


def _make_setitem(original: Any) -> Callable[[Any, Any, Any], None]:
    def __setitem__(self: Any, index: Any, value: Any) -> None:
        if not is_traced():
            note(self, "__setitem__", _get_frame(1), _simple_index(index))
        original(self, index, value)

    return __setitem__


def _make_function(name: str, original: Any) -> Callable[..., Any]:
    def writing_function(*args: Any, **kwargs: Any) -> Any:
        if not is_traced():
            target = args[0] if args else kwargs.get("input", kwargs.get("self"))
            frame = _get_frame(1)
            for tensor in target if isinstance(target, list | tuple) else (target,):
                note(tensor, name, frame)
        return original(*args, **kwargs)

    writing_function.__name__ = writing_function.__qualname__ = name
    writing_function.__doc__ = original.__doc__
    return writing_function


def note_out(target: Any) -> Any:
    """Called by instrumented code around the value of `out=`."""
    if not is_traced():
        frame = _get_frame(1)
        for tensor in target if isinstance(target, list | tuple) else (target,):
            if isinstance(tensor, torch.Tensor):
                note(tensor, "out=", frame)
    return target


# -- leaves ---------------------------------------------------------------------------------------------------------

_leaves: list[tuple[weakref.ref[torch.Tensor], Instruction]] = []


def note_leaf(tensor: Any) -> Any:
    """Called by instrumented code around `nn.Parameter(...)` and `requires_grad=True`."""
    if not is_traced() and isinstance(tensor, torch.Tensor):
        frame = _get_frame(1)
        if len(_leaves) > 20_000:
            _leaves[:] = [entry for entry in _leaves if entry[0]() is not None][-10_000:]
        _leaves.append((weakref.ref(tensor), (frame.f_code, frame.f_lasti)))
    return tensor


def where_leaf_was_made(tensor: torch.Tensor) -> Instruction | None:
    """The instruction of the user's own code that made this leaf, if it was seen."""
    return next((place for leaf, place in reversed(_leaves) if leaf() is tensor), None)


# -- optimizers -----------------------------------------------------------------------------------------------------


class _StepHooks:
    """Notes each optimizer step with the versions of its parameters before and after."""

    def __init__(self) -> None:
        self._parameters: weakref.WeakKeyDictionary[Any, tuple[weakref.ref[torch.Tensor], ...]]
        self._parameters = weakref.WeakKeyDictionary()
        self._before: list[tuple[Any, array[int]]] = []
        self._own_class: dict[type, bool] = {}

    def before(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if is_traced():
            return
        if not self._is_own(type(optimizer)):
            _Stepping.depth += 1
        self._before.append((optimizer, self._versions(optimizer)))

    def after(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if is_traced():
            return
        before = None
        while self._before and before is None:  # a step that raised has left its entry behind
            stepping, versions = self._before.pop()
            if not self._is_own(type(stepping)):
                _Stepping.depth -= 1
            before = versions if stepping is optimizer else None
        if before is not None and not self._is_own(type(optimizer)):
            frames = frames_to_own_code(_get_frame(1))
            name = f"{type(optimizer).__name__}.step"
            parameters, after = self._parameters[optimizer], self._versions(optimizer)
            record.add_step(Step(_next_number(), name, frames, parameters, before, after))

    def _versions(self, optimizer: Any) -> array[int]:
        known = self._parameters.get(optimizer)
        count = sum(len(group["params"]) for group in optimizer.param_groups)
        if known is None or len(known) != count:
            known = tuple(weakref.ref(p) for group in optimizer.param_groups for p in group["params"])
            self._parameters[optimizer] = known
        return array("Q", [p._version for group in optimizer.param_groups for p in group["params"]])

    def _is_own(self, kind: type) -> bool:
        """Is the optimizer's step written in the user's own code? Then its lines are what counts."""
        if kind not in self._own_class:
            step: Any = kind.step  # type: ignore[attr-defined]
            while hasattr(step, "__wrapped__"):
                step = step.__wrapped__
            self._own_class[kind] = hasattr(step, "__code__") and own_files[step.__code__.co_filename]
        return self._own_class[kind]


# -- putting it in place --------------------------------------------------------------------------------------------

_MISSING = object()
_undo: list[Callable[[], object]] = []


def _replace(owner: Any, name: str, value: Any) -> None:
    old = vars(owner).get(name, _MISSING)
    setattr(owner, name, value)
    if old is _MISSING:
        _undo.append(lambda: delattr(owner, name))
    else:
        _undo.append(lambda: setattr(owner, name, old))


def _writing_methods() -> list[str]:
    methods = [
        name
        for name in dir(torch.Tensor)
        if name.endswith("_") and not name.endswith("__") and name not in _NOT_WRITES
        if callable(getattr(torch.Tensor, name))
    ]
    return methods + [f"__i{name}__" for name in _AUGMENTED if hasattr(torch.Tensor, f"__i{name}__")]


def _writing_functions(module: Any) -> list[str]:
    return [
        name
        for name in dir(module)
        if name.endswith("_") and not name.endswith("__") and name not in _NOT_WRITES
        if type(getattr(module, name)).__name__ in ("builtin_function_or_method", "method_descriptor")
    ]


def _wrap_functions() -> None:
    """Replaces each writing function wherever torch's own Python code looks it up."""
    wrapped: dict[int, Callable[..., Any]] = {}
    places: list[ModuleType] = [torch, torch._C._nn, torch.nn.functional]
    for module in places:
        for name in _writing_functions(module):
            original = getattr(module, name)
            if id(original) not in wrapped:
                wrapped[id(original)] = _make_function(name, original)
            _replace(module, name, wrapped[id(original)])
    for name in _writing_functions(torch._C._VariableFunctions):  # F.dropout and others look here
        original = getattr(torch._C._VariableFunctions, name)
        _replace(torch._VF, name, wrapped.get(id(original)) or _make_function(name, original))
    _tell_torchscript(wrapped)


def _tell_torchscript(wrapped: dict[int, Callable[..., Any]]) -> None:
    """TorchScript knows builtins by identity; our functions must mean the same operations to it."""
    try:
        from torch.jit._builtins import _get_builtin_table

        table = _get_builtin_table()
    except ImportError:  # a torch without TorchScript needs none of this
        return
    for original, function in wrapped.items():
        if original in table:
            table[id(function)] = table[original]


def install() -> None:
    """Starts seeing writes."""
    if _undo:
        return
    for name in _writing_methods():
        _replace(torch.Tensor, name, WritingMethod(name, getattr(torch.Tensor, name)))
    _replace(torch.Tensor, "__setitem__", _make_setitem(torch.Tensor.__setitem__))
    _wrap_functions()
    from torch.optim import optimizer as optimizers

    hooks = _StepHooks()
    _undo.append(optimizers.register_optimizer_step_pre_hook(hooks.before).remove)
    _undo.append(optimizers.register_optimizer_step_post_hook(hooks.after).remove)


def uninstall() -> None:
    """Puts everything back as it was."""
    while _undo:
        _undo.pop()()
