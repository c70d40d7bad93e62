"""Records the memory of a running program: each storage, the operation that made it, its readers, when it was freed.

A `TorchDispatchMode` sees each operation with the Python frames it came from, forward and backward. A storage's Python
object lives as long as its memory, so a weak reference to it tells when the memory is freed. Nothing here keeps a
tensor alive. Memory that an operation allocates and frees internally is read from the allocator.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass

from outplace.reclaim.observe.recording import (
    LEAST_BYTES,
    MOST_FRAMES,
    Backward,
    Call,
    Clearing,
    Held,
    Instruction,
    Module,
    Operation,
    Recording,
    Saved,
    Storage,
    Sum,
    Tensor,
)
from outplace.reclaim.observe.workspace import OnCpu, OnCuda
from outplace.runtime.locate import graph, sites
from outplace.runtime.patches.table import Patch, Undo, registered, replaced
from outplace.runtime.record.user_files import own_files

MOST_OPERATIONS = 150_000
"""Operations that are kept: enough for some steps of a large model."""
_MOST_CALLS = 10
_HIGHER = 1.01
"""Names are looked at again when so much more memory is in use than the last time."""
_SITE = "_outplace_made_at"
"""The attribute in which a module carries the place where it was made; copies of it carry it too."""

_SEES_NAMES = {"locals", "vars", "dir", "eval", "exec"}
"""Functions that may have handed out the very dictionary of a frame's names, which is not ours to clear then."""

_TORCH = os.path.dirname(torch.nn.__file__)

CUDA_ROUNDS_TO = 512
LARGEST_SLACK = 1 << 20
"""CUDA's allocator hands out a block as it is where less than this would be left of it."""


class Ledger(TorchDispatchMode):  # type: ignore[misc]
    """The memory record of the main thread. Other threads are ignored."""

    def __init__(self) -> None:
        super().__init__()
        self.recording = Recording()
        self.on = True
        self._now = -1
        self._thread = threading.get_ident()
        self._alive: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._places: dict[tuple[Any, ...], int] = {}
        self._instructions: dict[tuple[Any, int], Instruction] = {}
        self._modules: dict[tuple[Any, ...], int] = {}
        self._made: list[weakref.ref[Any]] = []
        self._calls: list[Call] = []
        self._callers: list[Any] = []
        self._call_count = 0
        self._cuda = False
        self._looking = True
        self._backward: Backward | None = None
        self._in_use = 0
        self._highest = 0.0

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Does not record operations inside this block."""
        was, self._looking = self._looking, False
        try:
            yield
        finally:
            self._looking = was

    # -- operations ---------------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        node = torch._C._current_autograd_node()
        if not (self.on and self._looking) or (node is None and threading.get_ident() != self._thread):
            return func(*args, **kwargs)
        self._now += 1
        sequence_number = torch._C._autograd._get_sequence_nr() - 1
        inputs = tuple(self._tensor(tensor, given=True) for tensor in _tensors((args, kwargs)))
        try:
            with OnCuda() if self._cuda else OnCpu() as workspace:
                result = func(*args, **kwargs)
        except BaseException:
            self._now -= 1  # it has not taken place
            raise
        outputs = tuple(self._tensor(tensor, given=False) for tensor in _tensors(result))
        self._account_for(workspace.stays)
        self.recording.operations.append(
            Operation(
                func._overloadpacket.__name__,
                self._place(sys._getframe(1)),
                tuple(reversed(self._calls[-_MOST_CALLS:])),
                graph.number_of(node) if node is not None else sequence_number,
                node is not None,
                inputs,
                outputs,
                workspace.taken,
            )
        )
        if node is None and self._in_use > self._highest * _HIGHER:
            self._highest = self._in_use
            with self.paused():
                self._names(sys._getframe(1))
        if outputs and outputs[0].shape == () and func._overloadpacket.__name__ in ("add", "add_"):
            self._sum(args)
        if len(self.recording.operations) >= MOST_OPERATIONS:
            self.recording.full = True
            self.on = False
        return result

    def _tensor(self, tensor: Any, given: bool) -> Tensor:
        return Tensor(
            self._storage(tensor, given),
            tuple(tensor.shape),
            tuple(tensor.stride()),
            tensor.storage_offset(),
            str(tensor.dtype),
            tensor.element_size(),
            tensor.requires_grad,
            tensor.is_leaf,
            given and tensor._is_view(),
            given and (bool(tensor._backward_hooks) or tensor.retains_grad),
        )

    def _storage(self, tensor: Any, given: bool = True) -> int:
        """The number of a tensor's storage. A new or resized storage gets a new number."""
        memory = tensor.untyped_storage()
        key, size = memory._cdata, memory.nbytes()
        known = self._alive.get(key)
        if known is not None:
            number = known[1]
            if self.recording.storages[number].nbytes == size:
                return number
            self._died(key, number, None)
        number = len(self.recording.storages)
        device = str(memory.device)
        self._cuda = self._cuda or device.startswith("cuda")
        self.recording.storages.append(Storage(size, device, max(self._now, 0), None, None if given else self._now))
        self._in_use += size
        self._alive[key] = (weakref.ref(memory, functools.partial(self._died, key, number)), number)
        return number

    def _died(self, key: int, number: int, _: object) -> None:
        storage = self.recording.storages[number]
        if storage.died is None and self.on:
            storage.died = max(self._now, 0)
            self._in_use -= storage.nbytes
        if key in self._alive and self._alive[key][1] == number:
            del self._alive[key]

    def _account_for(self, taken: int) -> None:
        """Memory that CUDA's allocator gave to this operation beyond its result tensors."""
        tensors = []
        for storage in reversed(self.recording.storages):
            if storage.born < self._now:
                break
            if storage.maker == self._now and storage.device.startswith("cuda"):
                tensors.append(storage)
        rest = taken - sum(rounded(storage) for storage in tensors)
        if 0 < rest < LARGEST_SLACK * len(tensors):
            tensors[0].slack = rest
        elif rest > 0:  # cuBLAS takes memory at its first call and never gives it back
            device = f"cuda:{torch.cuda.current_device()}"
            self.recording.storages.append(Storage(rest, device, self._now, None, self._now))

    # -- places -------------------------------------------------------------------------------------------------------

    def _place(self, frame: FrameType | None) -> int:
        frames: list[tuple[Any, int]] = []
        while frame is not None and len(frames) < MOST_FRAMES:
            if own_files[frame.f_code.co_filename]:
                frames.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back
        if not frames and self._backward is not None:  # CUDA's backward runs in a thread of its own
            return self._backward.place
        key = tuple(frames)
        if key not in self._places:
            self._places[key] = len(self.recording.places)
            self.recording.places.append(tuple(self._instruction(*item) for item in frames))
        return self._places[key]

    def _instruction(self, code: Any, offset: int) -> Instruction:
        if (code, offset) not in self._instructions:
            site = sites.at_instruction((code, offset)).site
            where = (os.path.realpath(site.file), site.line, site.end_line, site.column, site.end_column)
            self._instructions[code, offset] = where
        return self._instructions[code, offset]

    # -- modules ------------------------------------------------------------------------------------------------------

    def patches(self) -> Iterator[Patch]:
        """What is changed in torch: where modules are made, which are being called, when gradients are let go of."""
        module = torch.nn.Module
        yield replaced(module, "__init__", self._watched_making, "The line that makes a module is noted.")
        yield replaced(module, "__call__", self._watched_call, "An operation belongs to the modules being called.")
        for owner in (torch.optim.Optimizer, module):
            yield replaced(owner, "zero_grad", self._watched_clearing, "Gradients are let go of.")
        why = "A mode sees each operation with the memory it takes."
        yield registered("torch.utils._python_dispatch: the stack of dispatch modes", self._begin, why)

    def _begin(self) -> Undo:
        self.__enter__()
        return lambda: self.__exit__(None, None, None)

    def _watched_making(self, make: Any) -> Any:
        def made(module: Any, *args: Any, **kwargs: Any) -> None:
            make(module, *args, **kwargs)
            if threading.get_ident() == self._thread:
                module.__dict__[_SITE] = self._place(sys._getframe(1))
                self._made.append(weakref.ref(module))

        return made

    def _watched_call(self, call: Any) -> Any:
        def called(module: Any, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread:
                return call(module, *args, **kwargs)
            self._call_count += 1
            caller = sys._getframe(1)
            direct = own_files[caller.f_code.co_filename]
            place = self._place(caller) if direct else -1
            self._calls.append(Call(self._call_count, self._module(module), direct, place))
            self._callers.append(module)
            try:
                return call(module, *args, **kwargs)
            finally:
                self._calls.pop()
                self._callers.pop()

        return called

    def buffers(self) -> Iterator[Any]:
        """The buffers of all live modules, in the order in which the modules were made."""
        for module in (reference() for reference in self._made):
            if module is not None:
                yield from (
                    buffer for buffer in module._buffers.values() if buffer is not None and _has_storage(buffer)
                )

    def _watched_clearing(self, clear: Any) -> Any:
        @functools.wraps(clear)
        def cleared(owner: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.on:
                return clear(owner, *args, **kwargs)
            before = {self._storage(p.grad) for p in _parameters(owner) if p.grad is not None and _has_storage(p.grad)}
            result = clear(owner, *args, **kwargs)
            after = {self._storage(p.grad) for p in _parameters(owner) if p.grad is not None and _has_storage(p.grad)}
            place = self._place(sys._getframe(1))
            self.recording.clearings.append(Clearing(place, self._now + 1, sorted(before - after)))
            return result

        return cleared

    def _module(self, module: Any) -> int:
        owner = self._callers[-1] if self._callers else None
        held = owner._modules.items() if owner is not None else ()
        name = next((name for name, one in held if one is module), "")
        flag = module.__dict__.get("inplace")
        kind = type(module).__name__ if type(module).__module__.startswith("torch.nn.modules") else ""
        known = _is_readable(type(module).forward) and not _has_hooks(module)
        key = (kind, module.__dict__.get(_SITE, -1), flag if isinstance(flag, bool) else None, name, known)
        if key not in self._modules:
            self._modules[key] = len(self.recording.modules)
            self.recording.modules.append(Module(*key))
        return self._modules[key]

    # -- graphs -------------------------------------------------------------------------------------------------------

    def backward_begins(self, frame: FrameType | None, roots: Any, retain: bool) -> Backward:
        """Records what the graph has saved, and which names refer to which storage."""
        nodes: list[int] = []
        if self.on:
            for node in graph.walk(graph.roots_of(roots)):
                number = graph.number_of(node)
                if number is None:
                    continue
                nodes.append(number)
                for name, tensor in graph.held(node):
                    if _has_storage(tensor):
                        self.recording.saved.append(Saved(number, node.name(), name, self._storage(tensor)))
            self._names(frame)
        begun = Backward(self._now + 1, self._now + 1, self._place(frame), retain, nodes)
        self.recording.backwards.append(begun)
        self._backward = begun
        return begun

    def backward_ends(self, begun: Backward) -> None:
        """Records the end of a backward."""
        begun.ended = max(self._now, begun.began)
        self._backward = None
        self._highest = 0.0  # the next step has a peak of its own

    def stepped(self) -> None:
        """An optimizer has stepped."""
        self.recording.steps.append(max(self._now, 0))

    def _sum(self, args: Any) -> None:
        """Two numbers were added. For a running total, records what the graph of the added number keeps."""
        place = self.recording.places[self.recording.operations[-1].place]
        added = args[1] if len(args) > 1 and isinstance(args[1], torch.Tensor) else args[0]
        if not place or added.grad_fn is None or not _is_running_total(place[0]):
            return
        nodes, storages = [], []
        with self.paused():
            for node in graph.walk([added.grad_fn]):
                number = graph.number_of(node)
                if number is not None:
                    nodes.append(number)
                    storages += [self._storage(tensor) for _, tensor in graph.held(node) if _has_storage(tensor)]
        self.recording.sums.append(Sum(self._now, nodes, sorted(set(storages))))

    def _names(self, frame: FrameType | None) -> None:
        while frame is not None:
            code = frame.f_code
            own = bool(code.co_flags & inspect.CO_OPTIMIZED)
            if own_files[code.co_filename] and (not own or _SEES_NAMES.isdisjoint(code.co_names)):
                names = frame.f_locals
                place = self._place(frame)
                for name, value in list(names.items()):
                    if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
                        self._name(place, code.co_firstlineno if own else 0, name, value)
                value = None
                if own and type(names) is dict:  # a snapshot that the frame would keep, and with it the tensors
                    names.clear()
            frame = frame.f_back

    def _name(self, place: int, function: int, name: str, value: Any) -> None:
        if _has_storage(value) and value.untyped_storage().nbytes() >= LEAST_BYTES:
            self.recording.held.append(Held(place, function, name, self._storage(value), self._now + 1))

    def finish(self, ended: bool) -> Recording:
        """Returns the complete recording."""
        self.on = False
        recording = self.recording
        recording.ended = ended
        for storage in recording.storages:
            storage.slack += rounded(storage) - storage.nbytes
        devices = {storage.device for storage in recording.storages if storage.device.startswith("cuda")}
        sizes = {
            device: sum(s.nbytes for s in recording.storages if s.device == device) for device in devices or {"cpu"}
        }
        recording.device = max(sizes, key=lambda device: sizes[device])
        return recording


@functools.cache
def _is_readable(forward: Any) -> bool:
    """Is this forward part of torch, or the user's own code?"""
    code = getattr(forward, "__code__", None)
    return code is not None and (code.co_filename.startswith(_TORCH) or own_files[code.co_filename])


def _has_hooks(module: Any) -> bool:
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(module.__dict__.get(kind) for kind in kinds)


def _parameters(owner: Any) -> Iterator[Any]:
    """The parameters of a module or of an optimizer."""
    if isinstance(owner, torch.nn.Module):
        yield from owner.parameters()
    else:
        yield from (parameter for group in owner.param_groups for parameter in group["params"])


def rounded(storage: Storage) -> int:
    """The size rounded up as the allocator does."""
    if not storage.device.startswith("cuda"):
        return storage.nbytes
    return -(-storage.nbytes // CUDA_ROUNDS_TO) * CUDA_ROUNDS_TO


@functools.cache
def _is_running_total(instruction: Instruction) -> bool:
    """Is it `total += x`?"""
    file, line, end_line, column, end_column = instruction
    span = sites.Span(line, end_line, column, end_column)
    around = list(sites.source_tree(file).enclosing(span))
    return any(isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) for node in around)


def _has_storage(tensor: Any) -> bool:
    """Does the tensor have its own storage? Wrapper tensors and lazy parameters do not."""
    if is_lazy(tensor) or is_traceable_wrapper_subclass(tensor) or tensor.is_nested:
        return False
    plain = tensor.layout == torch.strided and tensor.device.type != "meta"
    return plain and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def _tensors(values: Any) -> Iterator[Any]:
    """The tensors in the arguments or the result of an operation."""
    if isinstance(values, torch.Tensor):
        if _has_storage(values):
            yield values
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _tensors(value)
    elif isinstance(values, dict):
        for value in values.values():
            yield from _tensors(value)
