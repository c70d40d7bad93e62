"""One tensor that is stored by reference several times and changed in place in between.

All entries have its last value.

`history.append(state)`, `replay.append((before, state))`, `history[t] = state`.
"""

from __future__ import annotations

import ast
import gc
import sys
from collections import deque
from types import FrameType
from typing import Any

import torch

from outplace.knowledge.silent_rules.lists import SAME_TENSOR_APPENDED, SAME_VIEW_APPENDED
from outplace.runtime.locate import names, sites
from outplace.runtime.record import hidden_writes, log
from outplace.runtime.record.log import Instruction, Write
from outplace.runtime.record.snapshots import bits, copyable, same_piece, unobserved
from outplace.runtime.record.storages import storage_of
from outplace.runtime.record.untracked_aliases import Weak
from outplace.runtime.record.user_files import fields_of
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.marks import items_of

_next_number = torch._C._autograd._get_sequence_nr


_LARGEST_VIEW = 1 << 16


def _is_same_view(one: torch.Tensor, other: torch.Tensor) -> bool:
    """`outputs.append(state[0])`: are both views of the same part of one tensor?"""
    with torch._C.DisableTorchFunction():
        views = one._is_view() and other._is_view()
    return views and same_piece(one, other)


_MANY = 3
"""One entry may be reassigned at each step. Several entries that are one tensor are a history that was not kept."""


def _report_if_listed(tensor: torch.Tensor, since: int, line: Instruction, name: str | None = None) -> None:
    """Reports the bug if a list, or an entry of a list, still holds the tensor."""
    holders = [referrer for referrer in gc.get_referrers(tensor) if type(referrer) in (list, deque, tuple, dict)]
    holders = [entry for entry in holders if any(item is tensor for item in items_of(entry))]
    outer = [entry for holder in holders for entry in _holders_of(holder) if entry is not holders]
    if any(map(_is_list, (*holders, *outer))):
        _tell(tensor, [write for write in _writes_of(tensor) if write.moment >= since], line, name)


def _is_list(holder: Any) -> bool:
    return type(holder) is list or type(holder) is deque


def _holders_of(entry: Any) -> list[Any]:
    """The containers that hold this tuple or dict; empty for the namespace of a module."""
    if type(entry) is dict and "__name__" in entry:
        return []
    return [referrer for referrer in gc.get_referrers(entry) if any(item is entry for item in items_of(referrer))]


def _writes_of(tensor: torch.Tensor) -> list[Write]:
    storage = storage_of(tensor)
    return [write for write in log.current().writes if write.storage == storage and write.frames]


def _tell(tensor: torch.Tensor, written: list[Write], line: Instruction, appended: str | None = None) -> None:
    if written:
        name = appended or scan.target_of(written[-1]) or _gradient_of(tensor)
        copied = "[p.grad.clone() for p in model.parameters()]" if name and name.endswith(".grad") else "state.clone()"
        found = names.described(tensor, name)
        rule = SAME_TENSOR_APPENDED if appended is None else SAME_VIEW_APPENDED
        reporting.tell(rule, found, scan.mutations_of(written), {"copy": copied}, line)


def _gradient_of(tensor: torch.Tensor) -> str | None:
    """The name of the gradient, if it belongs to a module that the user's code has a name for."""
    for frame in names.own_frames(None, sys._getframe(1)):
        for holder, value in (*frame.f_locals.items(), *frame.f_globals.items()):
            if isinstance(value, torch.nn.Module):
                for name, parameter in value.named_parameters():
                    if parameter.grad is tensor:
                        return f"{holder}.{name}.grad"
    return None


def _appended_at(line: Instruction) -> str | None:
    """The source of the value that the line appends."""
    call = sites.at_instruction(line, "append").node
    return ast.unparse(call.args[0]) if isinstance(call, ast.Call) and len(call.args) == 1 else None


def _list_at(line: Instruction) -> tuple[str, ...]:
    call = sites.at_instruction(line, "append").node
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "append":
        holder, names_of = call.func.value, []
        while isinstance(holder, ast.Attribute):
            names_of.append(holder.attr)
            holder = holder.value
        return (holder.id, *reversed(names_of)) if isinstance(holder, ast.Name) else ()
    return ()


class Detector(detector.Detector):
    """Compares what a line appends or stores with what it stored before."""

    def __init__(self) -> None:
        self._kept: dict[Instruction, tuple[Weak, int, int]] = {}
        """For each storing line: the last value with its version, and when the line first stored that value."""
        self._shown: dict[Instruction, torch.Tensor] = {}
        """For a line that stores a view several times: the view's contents at the second time."""
        self._lists: dict[Instruction, tuple[str, ...]] = {}
        """The name of each appending line's list: `path` or `self.path`; None if it is not a plain name."""

    def on_appended(self, tensor: torch.Tensor, frame: FrameType) -> None:
        """A tensor that has been written is about to be appended to a list."""
        line = (frame.f_code, frame.f_lasti)
        known = self._kept.get(line)
        before = known[0]() if known is not None else None
        if known is not None and before is not None and before is not tensor and _is_same_view(before, tensor):
            if known[1] != tensor._version and hidden_writes.worth_a_look(line):
                scan.guarded(lambda: self._look_at_view(before, line, known[2]))
                reporting.raise_if_strict()
        elif known is None or before is None or before is not tensor:
            self._kept[line] = Weak(tensor), tensor._version, _next_number()
            self._shown.pop(line, None)
            if hidden_writes.worth_a_look(line) and self._stands_last(
                tensor, line, frame
            ):  # appended before the first write
                scan.guarded(lambda: _tell(tensor, _writes_of(tensor)[-tensor._version :], line))
                reporting.raise_if_strict()
        elif known[1] != tensor._version and hidden_writes.worth_a_look(line):
            scan.guarded(lambda: _report_if_listed(tensor, known[2], line))
            reporting.raise_if_strict()

    def _look_at_view(self, view: torch.Tensor, line: Instruction, since: int) -> None:
        """Was this part written, or another part of the same tensor? Only the contents tell."""
        with unobserved():
            if not copyable(view) or view.device.type != "cpu" or view.numel() > _LARGEST_VIEW:
                return
            before = self._shown.get(line)
            if before is None:
                self._shown[line] = view.detach().clone()
            elif not torch.equal(bits(before), bits(view)):
                _report_if_listed(view, since, line, _appended_at(line))

    def on_stored(self, tensor: torch.Tensor, holder: Any, frame: FrameType) -> None:
        """`holder[key] = tensor` is about to run. The holder is a dict or a list."""
        with torch._C.DisableTorchFunction():
            if tensor.is_inference() or tensor._version == 0:
                return
            line = (frame.f_code, frame.f_lasti)
            known = self._kept.get(line)
            if known is None or id(known[0]()) != id(tensor):
                self._kept[line] = Weak(tensor), tensor._version, _next_number()
                return
            many = known[1] != tensor._version and sum(item is tensor for item in items_of(holder)) >= _MANY
            if many and hidden_writes.worth_a_look(line):
                written = [write for write in _writes_of(tensor) if write.moment >= known[2]]
                scan.guarded(lambda: _tell(tensor, written, line))
                reporting.raise_if_strict()

    def _stands_last(self, tensor: torch.Tensor, line: Instruction, frame: FrameType) -> bool:
        """Is the tensor the last entry, or in the last entry, of the list that it is appended to?"""
        if line not in self._lists:
            self._lists[line] = _list_at(line)
        first, *rest = self._lists[line] or ("",)
        holder: Any = frame.f_locals.get(first, frame.f_globals.get(first))
        for attribute in rest:
            holder = fields_of(holder).get(attribute)
        if type(holder) not in (list, deque) or not holder:
            return False
        return holder[-1] is tensor or any(item is tensor for item in items_of(holder[-1]))
