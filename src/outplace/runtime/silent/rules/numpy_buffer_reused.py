"""A line returns an array over the same memory again, while the caller still reads the earlier array.

`return loss.item(), self.flat_grad.numpy()` gives an optimizer of another library the gradient at the new point. The
gradient of the last point, which that library has stored, is the same memory, so their difference is zero. It is
reported if a caller has a name for the earlier array and reads it after the call that refills the memory.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any

import torch

from outplace.knowledge.silent_rules.lists import NUMPY_BUFFER_REUSED
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.flow import binds, read_later
from outplace.runtime.locate import names, sites
from outplace.runtime.patches import tensor_writes
from outplace.runtime.patches.table import Patch, descriptor
from outplace.runtime.record import hidden_writes, log, untracked_aliases
from outplace.runtime.record.log import Instruction
from outplace.runtime.record.snapshots import PLAIN, bits, copyable, unobserved
from outplace.runtime.record.storages import storage_of
from outplace.runtime.record.untracked_aliases import Weak
from outplace.runtime.silent import detector, reporting, scan

_next_number = torch._C._autograd._get_sequence_nr
_get_frame = sys._getframe
_LARGEST = 1 << 16


class _Numpy:
    """`Tensor.numpy`: records the look-up and returns torch's own bound method."""

    def __init__(self, method: Any, note: Callable[[Any, FrameType], None]) -> None:
        self.method, self.note = method, note

    def __get__(self, tensor: Any, owner: type | None = None) -> Any:
        if tensor is None:
            return self.method
        if type(tensor) in PLAIN and not tensor_writes.is_traced():
            self.note(tensor, _get_frame(1))
        return self.method.__get__(tensor, owner)


def _reader(tensor: torch.Tensor, frame: FrameType) -> str | None:
    """The name of an array over the same memory that a caller got from the same call and will read later."""
    for own in names.own_frames(None, frame)[1:]:
        held = [name for name, value in own.f_locals.items() if _is_over(value, tensor)]
        standing = sites.statement_of(own) if held else None
        if standing is not None:
            kept = (name for name in held if _is_of_same_call(*standing, name))
            return next((name for name in kept if read_later(*standing, name)), None)
    return None


def _is_of_same_call(code: Code, statement: ast.stmt, name: str) -> bool:
    """Was the name bound by a call of the same function? (Other names may be windows on the memory, on purpose.)"""
    calls = _called(statement)
    assigned = [node for node in ast.walk(code.scope(statement)) if isinstance(node, ast.Assign) and binds(node, name)]
    return any(calls & _called(item) for item in assigned)


def _called(statement: ast.AST) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(statement) if isinstance(node, ast.Call)}


def _is_over(value: Any, tensor: torch.Tensor) -> bool:
    return untracked_aliases.is_array(value) and value.__array_interface__["data"][0] == tensor.data_ptr()


class Detector(detector.Detector):
    """Compares the array that a line returns with the array that it returned before."""

    def __init__(self) -> None:
        self._handed: dict[Instruction, tuple[int, torch.Tensor, int]] = {}
        """For each line: the address that it returned, a copy of the contents, and when that was."""
        self.waiting: dict[Instruction, tuple[Weak, str, int]] = {}
        """Cases in which a caller reads the earlier array: the tensor, the name of that array, and since when."""
        self._told: set[Instruction] = set()

    def patches(self) -> Iterator[Patch]:
        """The patches of torch."""
        why = "The array that it returns shares the memory of the tensor."
        yield descriptor(torch.Tensor, "numpy", lambda method: _Numpy(method, self._look_up), why)

    def _look_up(self, tensor: torch.Tensor, frame: FrameType) -> None:
        line = (frame.f_code, frame.f_lasti)
        if line not in self._told and hidden_writes.worth_a_look(line):
            scan.guarded(lambda: self._note(tensor, line, frame))

    def _note(self, tensor: torch.Tensor, line: Instruction, frame: FrameType) -> None:
        with unobserved():
            if not copyable(tensor) or tensor.device.type != "cpu" or tensor.numel() > _LARGEST or tensor.requires_grad:
                return
            address, before, since = self._handed.get(line, (0, None, 0))
            again = before is not None and address == tensor.data_ptr() and before.shape == tensor.shape
            if again and not torch.equal(bits(before), bits(tensor)):
                name = _reader(tensor, frame)
                if name is not None:
                    self.waiting[line] = Weak(tensor), name, since
            self._handed[line] = tensor.data_ptr(), tensor.detach().clone(), _next_number()

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """A backward shows that the program trains with such arrays."""
        for line in list(self.waiting):
            reference, name, since = self.waiting.pop(line)
            tensor = reference()
            if tensor is None:
                continue
            storage = storage_of(tensor)
            written = [write for write in log.current().writes if write.storage == storage and write.moment >= since]
            written = [item for item in written if item.frames]
            if written:
                self._told.add(line)
                found = names.described(tensor, scan.target_of(written[-1]))
                reporting.tell(NUMPY_BUFFER_REUSED, found, scan.mutations_of(written), {"name": name})
