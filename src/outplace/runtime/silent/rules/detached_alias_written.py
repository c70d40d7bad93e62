"""A detached alias of a tensor is written, and the tensor is used later.

`s = h.detach().flatten()`, `s.clamp_(0, 1)` for some statistics changes `h` itself, because `detach()` makes no copy.
If no node has saved `h` yet, PyTorch raises nothing. Later operations use the changed values, and the gradient ignores
the write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from outplace.knowledge.derivatives import passed_by
from outplace.knowledge.silent_rules.lost import DETACHED_ALIAS_WRITTEN
from outplace.runtime.patches import tensor_writes
from outplace.runtime.patches.table import Patch, descriptor
from outplace.runtime.record import hidden_writes
from outplace.runtime.record.log import Instruction, Write
from outplace.runtime.record.storages import storage_of
from outplace.runtime.record.untracked_aliases import Weak, owner_of
from outplace.runtime.silent import scan
from outplace.runtime.silent.result_written import ResultWritten

_next_number = torch._C._autograd._get_sequence_nr
_mode_active = torch._C._is_torch_function_mode_enabled


class _Detach:
    """`Tensor.detach`: records the look-up and returns torch's own bound method."""

    def __init__(self, method: Any, note: Callable[[Any], None]) -> None:
        self.method, self.note = method, note

    def __get__(self, tensor: Any, owner: type | None = None) -> Any:
        if tensor is None:
            return self.method
        if type(tensor) is torch.Tensor and not tensor_writes.is_traced():
            self.note(tensor)
        return self.method.__get__(tensor, owner)


class Detector(ResultWritten):
    """Remembers the activations that were detached, and receives the writes to their memory."""

    rule = DETACHED_ALIAS_WRITTEN

    def __init__(self) -> None:
        super().__init__()
        self._sources: dict[int, Weak] = {}
        """By the storage."""

    def patches(self) -> Iterator[Patch]:
        """The patches of torch."""
        why = "The tensor that it returns shares the memory of an activation."
        yield descriptor(torch.Tensor, "detach", lambda method: _Detach(method, self._note), why)

    def _note(self, tensor: torch.Tensor) -> None:
        if _mode_active():
            with torch._C.DisableTorchFunction():  # no mode of the user may see this
                self._remember(tensor)
        else:
            self._remember(tensor)

    def _remember(self, tensor: torch.Tensor) -> None:
        """A tensor is about to be detached: is it an activation?"""
        if tensor.is_leaf:
            return
        source = tensor._base if tensor._is_view() else tensor
        if source is None or source.is_leaf or source.layout is not torch.strided:
            return
        try:
            storage = source.untyped_storage()._cdata
        except (RuntimeError, NotImplementedError):  # inside a transform of `torch.func`
            return
        known = self._sources.get(storage)
        if known is not None and known() is source:
            return
        self._sources[storage] = Weak(source, lambda _: self._sources.pop(storage, None))
        tensor_writes.watch_storage(source)

    def on_special_write(self, write: Write, alias: torch.Tensor) -> None:
        """The memory of an activation is written. Is the write through an alias that autograd does not know?"""
        reference = self._sources.get(write.storage)
        source = None if reference is None else reference()
        if source is None or alias.requires_grad or passed_by(write.operation) or not write.frames:
            return
        if hidden_writes.worth_a_look(write.frames[-1]):
            scan.guarded(partial(self.wait, write, source))

    def on_array_written(self, array: Any, place: Instruction) -> None:
        """An array is about to be written. Does it lie in the memory of an activation?"""
        owner = owner_of(array)
        storage = storage_of(owner) if isinstance(owner, torch.Tensor) else None
        reference = None if storage is None else self._sources.get(storage)
        source = None if reference is None else reference()
        if storage is not None and source is not None:
            write = Write(storage, None, _next_number(), hidden_writes.ARRAY, (place,), None, False)
            scan.guarded(partial(self.wait, write, source))
