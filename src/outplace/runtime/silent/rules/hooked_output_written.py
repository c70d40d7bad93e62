"""A forward hook keeps the output of a module, and a later module overwrites that output: `nn.ReLU(inplace=True)`.

`conv.register_forward_hook(hook)`: the hook puts the output into a list, a dict or an attribute. A write is a bug if
one of these holds the written memory right before the write, and still holds it when a backward starts. Writes outside
of a forward, or to what is read from an attribute or item, belong to a program that goes on with what it has kept.
"""

from __future__ import annotations

import ast
import inspect
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch

from outplace.knowledge.silent_rules.lists import HOOKED_OUTPUT_WRITTEN
from outplace.runtime.locate import names, sites
from outplace.runtime.patches.code_injection import injected
from outplace.runtime.patches.table import Patch
from outplace.runtime.record import hidden_writes
from outplace.runtime.record.log import Write
from outplace.runtime.record.snapshots import PLAIN
from outplace.runtime.record.storages import storage_of
from outplace.runtime.record.untracked_aliases import Weak
from outplace.runtime.record.user_files import own_files
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.operands import frame_of

_MOST_HOOKS = 256
_OF_MODULES = ("._parameters", "._buffers", "._modules")
_CALL = torch.nn.Module._call_impl.__code__


class Detector(detector.Detector):
    """Looks into what the hooks can reach, before a tensor is written."""

    def __init__(self) -> None:
        self._hooks: list[Callable[[], Any]] = []
        """Weak references to the functions that were registered."""
        self.waiting: dict[int, tuple[Weak, Write, Callable[[], Any]]] = {}
        """By the id of a kept tensor: the tensor, the write, and the hook. Reported when the next backward starts."""

    def patches(self) -> Iterator[Patch]:
        """The patches of torch."""
        why = "A forward hook may keep an output that a later module overwrites."
        yield injected(torch.nn.Module.register_forward_hook, "forward_hook", "hook", self._note_hook, why)

    def _note_hook(self, hook: Any) -> None:
        function = inspect.unwrap(getattr(hook, "func", hook))
        code = getattr(function, "__code__", None)
        if code is not None and own_files[code.co_filename] and len(self._hooks) < _MOST_HOOKS:
            try:
                self._hooks.append(weakref.WeakMethod(hook) if inspect.ismethod(hook) else weakref.ref(hook))
            except TypeError:  # an object that has no weak references
                return

    def on_graph_write(self, write: Write, tensor: torch.Tensor) -> None:
        """A tensor is about to be written."""
        if self._hooks and write.frames and hidden_writes.worth_a_look(write.frames[-1]):
            scan.guarded(partial(self._look, write, tensor))

    on_plain_write = on_no_grad_write = on_graph_write

    def _look(self, write: Write, tensor: torch.Tensor) -> None:
        if not _is_in_forward(write):
            return
        for reference in self._hooks:
            for _, kept in _kept_by(reference()):
                if id(kept) not in self.waiting and storage_of(kept) == write.storage is not None:
                    self.waiting[id(kept)] = Weak(kept), write, reference

    def on_backward_start(self, nodes: Iterable[Any]) -> None:
        """A backward shows that the program trains with what it kept."""
        waiting = list(self.waiting.values())
        self.waiting.clear()
        for kept, write, hook in waiting:
            tensor, function = kept(), hook()
            path = next((path for path, item in _kept_by(function) if item is tensor), None)
            if tensor is not None and path is not None:
                code = inspect.unwrap(getattr(function, "func", function)).__code__
                words = {"hook": f"`{code.co_name}` (line {code.co_firstlineno})"}
                found = names.described(tensor, path)
                reporting.tell(HOOKED_OUTPUT_WRITTEN, found, scan.mutations_of([write]), words)


def _is_in_forward(write: Write) -> bool:
    """Does a module write, or a statement in its forward that has a name for the tensor?"""
    if any(code is _CALL for code, _ in write.frames):
        return True
    located = sites.at_instruction(write.frames[-1], write.operation)
    if not isinstance(sites.target_node(located, write.operation), ast.Name):
        return False
    frame = frame_of(write)
    while frame is not None and frame.f_code is not _CALL:
        frame = frame.f_back
    return frame is not None


def _kept_by(hook: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors in the lists, dicts and attributes that a hook can reach, with their paths."""
    for name, owner in _reached_by(hook):
        held = [pair for pair in names.children(name, owner) if not pair[0].endswith(_OF_MODULES)]
        inside = [pair for path, item in held for pair in names.children(path, item)]
        yield from ((path, item) for path, item in (*held, *inside) if type(item) in PLAIN)


def _reached_by(hook: Any) -> Iterator[tuple[str, Any]]:
    """The object of a method, the arguments of a `partial`, the variables around a function, with their names."""
    if isinstance(hook, partial):
        code = hook.func.__code__ if hasattr(hook.func, "__code__") else None
        yield from zip(code.co_varnames if code is not None else (), hook.args, strict=False)
        yield from hook.keywords.items()
        hook = hook.func
    if inspect.ismethod(hook):
        yield "self", hook.__self__
        hook = hook.__func__
    code = getattr(hook, "__code__", None)
    if code is not None:
        for name, cell in zip(code.co_freevars, hook.__closure__ or (), strict=True):
            try:
                yield name, cell.cell_contents
            except ValueError:  # it has no value yet
                continue
        yield from ((name, hook.__globals__[name]) for name in code.co_names if name in hook.__globals__)
