"""The guard compares the contents of every saved tensor when it is saved and when a backward starts.

It finds writes that leave no trace: by numpy and C extensions, through raw pointers, by other processes. A function
mode sees each operation when it returns, takes the new nodes of the graph, and puts a copy of what they saved (a
fingerprint if that is large) into their metadata, which lives as long as the nodes. The graph itself is unchanged, so
everything else works as usual: PyTorch's own check, `saved_tensors_hooks`, checkpoints, second derivatives. Tensors
that the user's hooks have packed are not compared.

A change that the record does not explain has no line. So the guard remembers which place saved the tensor. At the next
step it compares what that place saves before every statement. The statement after which it has changed is the writer.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _pop_mode, _push_mode

from outplace.knowledge.kinds import BY_NAME
from outplace.knowledge.nodes import describe_saved
from outplace.model import Diagnosis, Mutation, SavedTensor, Tensor
from outplace.runtime import instrument
from outplace.runtime.locate import graph, names, sites, writers
from outplace.runtime.locate.savers import saver
from outplace.runtime.patches.table import Patch, Undo, registered
from outplace.runtime.record import log
from outplace.runtime.record.log import Place
from outplace.runtime.record.snapshots import Contents, bits, copyable, distinct, fingerprint, unobserved
from outplace.runtime.silent import reporting
from outplace.runtime.silent.compare_gradients import Hit, how_far

_KEY = "outplace_guard"
_COPIED = 1 << 20
"""Tensors of at most this many bytes are copied. Larger ones get a fingerprint."""

_next_number = torch._C._autograd._get_sequence_nr


class Snapshot:
    """The contents of a saved tensor: a copy or a fingerprint."""

    __slots__ = ("mark", "patch")

    def __init__(self, tensor: torch.Tensor) -> None:
        region = distinct(tensor.detach())
        self.patch = Contents.of(region) if region.numel() * region.element_size() <= _COPIED else None
        self.mark = None if self.patch is not None else fingerprint(region)

    def differs(self, tensor: torch.Tensor) -> torch.Tensor | bool:
        """Has it changed? The answer stays on the GPU."""
        region = distinct(tensor.detach())
        if self.patch is None:
            assert self.mark is not None
            return (fingerprint(region) != self.mark).any()
        if region.shape != self.patch.contents.shape or region.dtype != self.patch.contents.dtype:
            return True
        now, then = bits(region), bits(self.patch.contents)
        return (now != then).any() if now.is_cuda else not torch.equal(now, then)


class _Mode(TorchFunctionMode):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self._seen = 0
        """Nodes of this thread with a number below this have been handled."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not log.is_traced():
            kind = type(result)
            if kind is torch.Tensor or kind is tuple or kind is list or isinstance(result, torch.Tensor):
                self._look(result)
        return result

    def _look(self, result: Any) -> None:
        before, self._seen = self._seen, _next_number()
        if not torch.is_grad_enabled() or torch._C._functorch.maybe_current_level() is not None:
            return
        parts = result if isinstance(result, tuple | list) else (result,)
        new = [
            part.grad_fn
            for part in parts
            # Asking for a view's node may make a new node, so the view is handled where it is used.
            if isinstance(part, torch.Tensor) and part.requires_grad and not part._is_view()
        ]
        if not new or _is_capturing():
            return
        while new:
            node = new.pop()
            if node is not None and self._is_new(node, before):
                _leave_snapshots(node)
                new += [following for following, _ in node.next_functions]

    def _is_new(self, node: Any, before: int) -> bool:
        number = graph.number_of(node)
        if number is None or _KEY in node.metadata:
            return False
        # A Function's node has a smaller number than the nodes of its forward.
        return number >= before or isinstance(node, torch.autograd.function.BackwardCFunction)


def _is_capturing() -> bool:
    return bool(torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


def _leave_snapshots(node: Any) -> None:
    with unobserved():
        node.metadata[_KEY] = {
            saved_as: Snapshot(alias) for saved_as, alias in graph.held(node) if copyable(alias) and alias.numel()
        }
        if _armed:
            _watch(node)


# -- when a backward starts -----------------------------------------------------------------------------------------


def changed(nodes: Iterable[Any]) -> list[Hit]:
    """The saved tensors of these nodes whose contents have changed. Waits for the GPU once."""
    looked_at: list[tuple[Any, str, torch.Tensor, Snapshot, torch.Tensor | bool]] = []
    with unobserved():
        for node in nodes:
            snapshots = node.metadata.get(_KEY)
            for saved_as, alias in graph.held(node) if snapshots else ():
                snapshot = snapshots.get(saved_as)
                if snapshot is not None:
                    looked_at.append((node, saved_as, alias, snapshot, snapshot.differs(alias)))
        waiting = [answer for *_, answer in looked_at if isinstance(answer, torch.Tensor)]
        answers = iter(torch.stack(waiting).tolist() if waiting else ())
    hits = []
    for node, saved_as, alias, snapshot, answer in looked_at:
        if (next(answers) if isinstance(answer, torch.Tensor) else answer) and not _raises(node, saved_as):
            patches = None if snapshot.patch is None else [snapshot.patch.into(alias)]
            hits.append(Hit(node, saved_as, alias, (), (), patches, graph.number_of(node) or 0))
    return hits


def _raises(node: Any, saved_as: str) -> bool:
    """Will PyTorch itself refuse the changed tensor?"""
    name, _, _ = saved_as.partition("[")
    try:
        getattr(node, "saved_tensors" if name == "saved_tensors" else f"_saved_{name}")
    except RuntimeError:
        return True
    return False


def tell(hit: Hit, frame: FrameType) -> None:
    """Reports a change that the record does not explain: now if its line is known, else as soon as it is."""
    place = writers.place_of(hit.node)
    saved_by = saver(hit.node, hit.saved_as)
    base = hit.alias if hit.alias._base is None else hit.alias._base
    tensor_name = names.name_in_frames(base, names.own_frames(None, frame))
    keeps = describe_saved(saved_by.node, saved_by.saved_as)
    writer = _writers.get(place)
    tensor = names.described(base if tensor_name else hit.alias, tensor_name)
    report = partial(_report, tensor, keeps, saved_by, how_far([hit]))
    if writer is not None or reporting.strict or not _marks_run:
        report(writer)
        _untold.pop(place, None)
    elif place not in _untold:
        _untold[place] = report
        _arm(place)


def _report(tensor: Tensor, keeps: str, saver: SavedTensor, notes: tuple[str, ...], writer: Place = None) -> None:
    located = sites.at_place(writer) if writer is not None else None
    mutations = () if located is None else (Mutation("untraced write", located.site),)
    by = "by this line" if mutations else "before the backward, by something that leaves no trace"
    why = (
        f"{keeps} for its backward. Its contents were then changed {by}: numpy, a C extension, a raw pointer, another "
        "process. PyTorch cannot tell, and the gradient is computed from the wrong values."
    )
    family = BY_NAME["silent-alias"]
    texts = (family.name, family.code, reporting.NO_ERROR, tensor, why)
    reporting.report(Diagnosis(*texts, mutations=mutations, saved_by=saver, notes=notes), _REMEDY)


_REMEDY = "Give the code outside PyTorch a copy (`.clone()`, `.numpy().copy()`), or let it write after the backward."


# -- finding the writer ---------------------------------------------------------------------------------------------

_untold: dict[Place, Callable[[], None]] = {}
_armed: set[Place] = set()
_writers: dict[Place, Place] = {}
"""For a place that saves a tensor: the place that was found to change it."""
_watched: list[tuple[Place, torch.Tensor, Snapshot]] = []
_marks_run = False


def _arm(place: Place) -> None:
    _armed.add(place)
    instrument.put(MARK=_checking_mark, BACK=_checking_back)


def _watch(node: Any) -> None:
    place = writers.place_of(node)
    if place in _armed:
        for saved_as, alias in graph.held(node):
            snapshot = node.metadata[_KEY].get(saved_as)
            if snapshot is not None:
                _watched.append((place, alias.detach(), snapshot))


def _compare() -> None:
    """Has a watched tensor changed since the last statement began?"""
    if not _watched or log.is_traced():
        return
    with unobserved():
        for watched in list(_watched):
            place, alias, snapshot = watched
            if snapshot.differs(alias):
                _watched.remove(watched)
                _armed.discard(place)
                _writers[place] = log.current().places[-1]
    if not _armed:
        _watched.clear()
        instrument.publish()


def _checking_mark(statement: int) -> None:
    _compare()
    log.mark_unless_traced(statement)


def _checking_back(value: Any = None, _mark: None = None) -> Any:
    _compare()
    if not log.is_traced():
        log.back_from(sys._getframe(1))
    return value


def forget_watched() -> None:
    """A backward has started and has used what was saved for it."""
    _watched.clear()


def flush() -> None:
    """Reports the remaining changes, whose lines were never found."""
    for report in list(_untold.values()):
        report()
    _untold.clear()


# -- on and off -----------------------------------------------------------------------------------------------------

active: list[_Mode] = []
"""The active function mode."""


def patches(marks_run: bool) -> Iterator[Patch]:
    """The patches of the guard on this thread. `marks_run` says whether the user's statements can be watched."""
    why = "A mode sees each operation as it returns, and copies what its node has saved."
    yield registered("torch.overrides: the stack of function modes", lambda: _start(marks_run), why)
    why = "What was found is reported at the latest when the program ends."
    yield registered("atexit", _flush_at_end, why)


def _start(marks_run: bool) -> Undo:
    global _marks_run
    _marks_run = marks_run
    active.append(_Mode())
    active[0].__enter__()
    return _stop


def _stop() -> None:
    _take_off(active.pop())
    if _armed:
        instrument.publish()
    for container in (_armed, _watched, _writers):
        container.clear()


def _flush_at_end() -> Undo:
    atexit.register(flush)

    def undo() -> None:
        flush()
        atexit.unregister(flush)

    return undo


def _take_off(mode: _Mode) -> None:
    """Removes the mode from the stack, below the modes that the user has added since."""
    above = []
    while (top := _pop_mode()) is not mode:
        above.append(top)
    for other in reversed(above):
        _push_mode(other)
