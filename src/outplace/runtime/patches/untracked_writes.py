"""The ways to write a tensor that autograd cannot see. Each write is recorded where it is called.

None of these changes a version: writes through `.data`, through arrays over a tensor's memory and through storages,
batch norm's running statistics, collectives, and calls that restore a version. Hooks are compiled into the library
functions, which stay the same objects, so Dynamo, TorchScript and `__torch_function__` see no difference.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any

import torch
import torch.nn.functional as F

from outplace.knowledge.traits import having
from outplace.runtime.patches import caller_frames, optimizer_steps, tensor_writes
from outplace.runtime.patches.code_injection import injected
from outplace.runtime.patches.table import Patch, descriptor, replaced, slot
from outplace.runtime.record import hidden_writes, log, untracked_aliases
from outplace.runtime.record.events import events
from outplace.runtime.record.log import SENT, Write, frames_to_own_code
from outplace.runtime.record.snapshots import PLAIN, Contents, unobserved
from outplace.runtime.record.storages import storage_of
from outplace.runtime.record.untracked_aliases import Weak
from outplace.runtime.record.user_files import fields_of, own_files

_get_frame = sys._getframe
_next_number = torch._C._autograd._get_sequence_nr


# -- .data ----------------------------------------------------------------------------------------------------------


class DataAttribute:
    """Replaces `data` of `torch.Tensor`: remembers the alias that it returns, and records `x.data = y`."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def __get__(self, tensor: Any, owner: type | None = None) -> Any:
        if tensor is None:
            return self._original
        alias = self._original.__get__(tensor, owner)
        if not tensor_writes.is_traced() and type(alias) is torch.Tensor:
            untracked_aliases.remember(alias, log.state.backwards, tensor if type(tensor) is torch.Tensor else None)
        return alias

    def __set__(self, tensor: Any, value: Any) -> None:
        if tensor_writes.is_traced():
            self._original.__set__(tensor, value)
            return
        frames = frames_to_own_code(_get_frame(1))
        sampled = bool(frames) and hidden_writes.worth_a_look(frames[-1])
        before = None
        for listener in events.data_assigned:
            listener(tensor, value, _get_frame(1), sampled)
        if sampled and hidden_writes.reserve_copy(tensor):
            with unobserved():
                before = self._original.__get__(tensor)
        self._original.__set__(tensor, value)
        if before is not None:
            with unobserved():
                patch = Contents.other_memory(before, tensor)
            hidden_writes.note(Write(0, None, _next_number(), ".data =", frames, None, False), tensor, patch)

    def __delete__(self, tensor: Any) -> None:
        self._original.__delete__(tensor)


# -- numpy ----------------------------------------------------------------------------------------------------------


def note_array(value: Any, stored: Any = None) -> Any:
    """Called by marked code on what is about to be written. A numpy array may share memory with a tensor.

    `stored` is the value that is written there, if it has a name.
    """
    kind = type(value)
    if kind in _NO_ARRAYS:
        if (kind is dict or kind is list) and not tensor_writes.is_traced() and type(stored) in PLAIN:
            for listener in events.stored:
                listener(stored, value, _get_frame(1))
    elif not tensor_writes.is_traced():
        array = untracked_aliases.array_in_tensor(value)
        if array is not None:
            _note_array(array, _get_frame(1))
        for listener in during_fetch:
            listener(value, _get_frame(1))
    return value


during_fetch: list[Callable[[Any, FrameType], None]] = []
"""Called for each array that is about to be written, while a DataLoader fetches a batch."""


# A tuple, the most frequent types first: older Dynamos, which trace this, cannot test a frozenset of types.
_NO_ARRAYS = (torch.Tensor, dict, list, torch.nn.Parameter, int, float, complex, str, bytes, bool)


def note_attribute(owner: Any, name: str) -> None:
    """The same for `owner.name += v`, if `name` is a plain attribute."""
    if not tensor_writes.is_traced():
        array = untracked_aliases.array_in_tensor(fields_of(owner).get(name))
        if array is not None:
            _note_array(array, _get_frame(1))


def _note_array(array: Any, frame: FrameType) -> None:
    place = ((frame.f_code, frame.f_lasti),)
    if hidden_writes.worth_a_look(place[0]):
        for listener in events.array_written:
            listener(array, place[0])
        write = Write(0, None, _next_number(), hidden_writes.ARRAY, place, None, False)
        hidden_writes.note(write, _tensor_over(array))


def _tensor_over(array: Any) -> torch.Tensor | None:
    """A tensor over an array's memory, for copying the contents and comparing addresses."""
    try:
        with unobserved():
            return _FROM_NUMPY(array)
    except (TypeError, ValueError):  # an array with negative strides, or with a dtype that torch lacks
        return None


_FROM_NUMPY: Any = torch.from_numpy


def _make_taker(takers: dict[int, Callable[..., Any]], original: Any) -> Any:
    """For functions that make a tensor over existing memory. Adds it to `takers`, by the id of the original."""

    @functools.wraps(original)
    def taker(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():
            return original(*args, **kwargs)
        tensor = caller_frames.call(_get_frame(1), original, args, kwargs)
        if args and type(tensor) is torch.Tensor and tensor is not args[0] and not tensor_writes.is_traced():
            with unobserved():
                _remember(args[0], tensor)
            for listener in events.array_taken if own_files[_get_frame(1).f_code.co_filename] else ():
                listener(tensor, _get_frame(1))
        return tensor

    takers[id(original)] = taker
    return taker


def _remember(source: Any, tensor: torch.Tensor) -> None:
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(source, numpy.ndarray):
        if source.__array_interface__["data"][0] == tensor.data_ptr():
            untracked_aliases.remember_array(source, tensor)
    elif isinstance(source, torch.Tensor) and tensor._base is None and source.data_ptr() == tensor.data_ptr():
        untracked_aliases.remember(tensor)  # dlpack


# -- calls ----------------------------------------------------------------------------------------------------------


def note_fused_step(optimizer: Any, frame: FrameType) -> None:
    """Fused optimizers write their parameters without changing a version."""
    parameters = (p for group in optimizer.param_groups for p in group["params"] if p.grad is not None)
    hidden_writes.note_call(parameters, f"{type(optimizer).__name__}.step", frame)


_evaluated: dict[int, Weak] = {}
"""The running means that a batch norm in evaluation mode has used in a graph."""


def note_batch_norm(mean: Any, variance: Any, training: bool) -> None:
    """In training, batch norm writes the statistics that it uses, and saves for backward, in evaluation."""
    if mean is None or tensor_writes.is_traced():
        return
    if not training:
        if torch.is_grad_enabled() and id(mean) not in _evaluated:
            key = id(mean)
            _evaluated[key] = Weak(mean, lambda _: _evaluated.pop(key, None))
    elif id(mean) in _evaluated:
        hidden_writes.note_call((mean, variance), "batch_norm", _get_frame(1))


def note_collective(target: Any) -> None:
    """A collective of torch.distributed is about to write."""
    if not tensor_writes.is_traced():
        tensors = target if isinstance(target, list | tuple) else (target,)
        frame = _get_frame(1)
        hidden_writes.note_call(tensors, frame.f_code.co_name, frame)
        for tensor in tensors:
            tensor_writes.note(tensor, frame.f_code.co_name, frame)  # some backends do change the version


_COLLECTIVES = (
    "all_reduce",
    "all_reduce_coalesced",
    "broadcast",
    "reduce",
    "scatter",
    "recv",
    "irecv",
    "all_gather",
    "all_gather_into_tensor",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "all_to_all",
    "all_to_all_single",
)
"""All of them write their first argument, except `gather`, which writes its second."""


def process_group_began() -> bool:
    """Is there a process group already?"""
    return bool(torch.distributed.is_initialized())


def until_process_group(act: Callable[[], None]) -> Patch:
    """The row that calls `act` when the program starts a process group."""
    why = "Collectives are hooked when a process group begins: reading their source takes time."
    return injected(torch.distributed.init_process_group, "process_group", "", act, why)


def collectives() -> Iterator[Patch]:
    """The patches that record the writes of torch.distributed."""
    why = "A collective writes its argument without moving a version."
    for name in _COLLECTIVES:
        function = inspect.unwrap(getattr(torch.distributed, name))
        first = next(iter(inspect.signature(function).parameters))
        yield injected(function, "collective", first, note_collective, why)
    yield injected(torch.distributed.gather, "collective", "gather_list", note_collective, why)
    replicas = torch.nn.parallel.DistributedDataParallel
    if hidden_writes.PRESERVED not in inspect.getsource(replicas._sync_buffers):
        why = "DDP sends its buffers, and an older torch does not put their versions back."
        yield injected(replicas._distributed_broadcast_coalesced, "buffers", "tensors", _note_buffers, why)


def _note_buffers(tensors: Iterable[Any]) -> None:
    """DDP is about to broadcast its buffers, in an older torch that does not restore their versions."""
    frame: FrameType | None = _get_frame(1)
    while frame is not None and not own_files[frame.f_code.co_filename]:  # frames of libraries add nothing
        frame = frame.f_back
    if frame is not None:
        for tensor in tensors:
            tensor_writes.note(tensor, SENT, frame)


# -- versions that are restored ----------------------------------------------------------------------------------------


def _make_preserve(original: Any) -> Any:
    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if not tensor_writes.is_traced():
            tensors = self.tensors if hasattr(self, "tensors") else (self.tensor,)  # in older torch: a single one
            hidden_writes.note_call(tensors, hidden_writes.PRESERVED, _get_frame(1))

    return __init__


def _make_set_versions(original: Any) -> Any:
    @functools.wraps(original)
    def set_versions(tensors: Any, versions: Any) -> Any:
        frame = _get_frame(1)
        if not tensor_writes.is_traced() and frame.f_code.co_name != "__exit__":  # recorded when the block began
            pairs = [(tensors, versions)] if isinstance(tensors, torch.Tensor) else zip(tensors, versions, strict=False)
            for tensor, version in pairs:
                storage = storage_of(tensor)
                for write in log.current().writes:
                    if write.storage == storage and (write.before or 0) >= version:
                        hidden_writes.note(write, tensor, copied=False)
        return original(tensors, versions)

    return set_versions


# -- storages ---------------------------------------------------------------------------------------------------------


def _make_storage_method(name: str, original: Any) -> Any:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not tensor_writes.is_traced() and self.nbytes():
            with unobserved():
                over = _SET(torch.empty(0, dtype=torch.uint8, device=self.device), self)
            hidden_writes.note_call((over,), name, _get_frame(1))
        return original(self, *args, **kwargs)

    return method


_SET: Any = torch.Tensor.set_


def _on_hidden(write: Write, tensor: torch.Tensor) -> None:
    hidden_writes.note(write, tensor)
    for listener in events.untracked_write:
        listener(write, tensor)


def patches() -> Iterator[Patch]:
    """The patches that record the writes which autograd cannot see."""
    yield slot(tensor_writes, "on_hidden", _on_hidden, "Gets the writes that change no version.")
    yield slot(optimizer_steps, "on_fused_step", note_fused_step, "A fused optimizer changes no version.")
    why = "`.data` hands out an alias that autograd does not know, and `x.data = y` changes the tensor unseen."
    yield descriptor(torch.Tensor, "data", DataAttribute, why)
    why = "The tensor it returns lies over memory that something else can write."
    takers: dict[int, Callable[..., Any]] = {}
    for name in sorted(having("takes_array")):
        yield replaced(torch, name, functools.partial(_make_taker, takers), why)
    yield tensor_writes.declared_to_torchscript(takers, "take arrays")
    yield replaced(torch.utils.dlpack, "from_dlpack", lambda _: torch.from_dlpack, why)
    for name in ("fill_", "copy_", "__setitem__"):
        why = "A write to a storage does not change the version of its tensors."
        yield replaced(torch.UntypedStorage, name, functools.partial(_make_storage_method, name), why)
    why = "In training, batch norm writes its running statistics without a change of their version."
    yield injected(F.batch_norm, "batch_norm", "running_mean, running_var, training", note_batch_norm, why)
    preserve = torch.autograd.grad_mode._unsafe_preserve_version_counter
    why = "Versions are put back at the end of such a block, so autograd does not see its writes."
    yield replaced(preserve, "__init__", _make_preserve, why)
    why = "It puts versions back, so autograd no longer sees the writes before it."
    yield replaced(torch._C._autograd, "_unsafe_set_version_counter", _make_set_versions, why)
