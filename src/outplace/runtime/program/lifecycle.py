"""Attaches outplace to this process: when torch comes, where errors surface, in children and threads.

torch is never imported here. If the program has not imported it yet, the hooks are put in place right after it does.
"""

from __future__ import annotations

import functools
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, Literal

from outplace import settings
from outplace.model import Diagnosis
from outplace.runtime import instrument
from outplace.runtime.errors import dispatch
from outplace.runtime.patches import caller_frames
from outplace.runtime.patches.table import Patch, Section, Table, after_import
from outplace.runtime.program import ranks
from outplace.runtime.program.reporter import Reporter
from outplace.runtime.record import log
from outplace.runtime.record.user_files import own_files
from outplace.runtime.silent import reporting

Way = Literal["marks", "tags"]
"""How the places of nodes are known: marks in the source (nearly free), or a tag on each node (any code)."""

_way: Way | None = None
_guards = 0
"""How many have asked for the guard."""
lock = threading.RLock()


def attach(way: Way, reporter: Reporter, guard: bool = False, strict: bool = False) -> None:
    """Starts recording in this process; `guard` and `strict` are as in `outplace.watch`."""
    global _way
    settings.check()
    with lock:
        dispatch.as_text = reporter.note
        ask_for(guard, strict)
        if _way is None:
            _watch_errors(way)
        if _way is None or not _torch_is_here():
            _way = way  # a process that tags, and that now runs a program with marks (or the other way round)
        instrument.publish()  # also for tags: a function with marks may come out of a pickle
        if way == "marks":
            instrument.install()
        table.open(_TORCH)


def ask_for(guard: bool, strict: bool, times: int = 1) -> None:
    """Counts who wants the guard and exceptions; with `times=-1` one of them wants them no longer."""
    global _guards
    _guards += times * guard
    reporting.strict += times * strict
    _set_guard()


def _set_guard() -> None:
    """Starts or stops the guard, if torch is here; else it starts when torch comes."""
    if _torch_is_here() and (_guards or "outplace.runtime.silent.guard" in sys.modules):
        from outplace.runtime.silent import guard

        guard.switch(_guards > 0 and attached(), _way == "marks")


def _torch_is_here() -> bool:
    return hasattr(sys.modules.get("torch"), "Tensor")


def detach() -> None:
    """Stops recording and puts torch back as it was."""
    global _way
    with lock:
        _way = None
        _set_guard()
        instrument.uninstall()
        table.close()
        _unwatch_errors()
        if _torch_is_here():
            from outplace.runtime.patches import anomaly_tags, backward, dynamo, tensor_writes

            dynamo.uninstall()
            anomaly_tags.uninstall()
            tensor_writes.uninstall()
            backward.uninstall()


def attached() -> bool:
    """Is outplace recording in this process?"""
    return _way is not None


uncaught: list[Diagnosis] = []
"""What ended this process, if it is one rank of several: it is shown once for all of them, when it ends."""


# -- torch --------------------------------------------------------------------------------------------------------


table = Table()
"""What is in place in this process."""


def _connecting() -> Iterator[Patch]:
    _connect()
    yield from ()


def _checkpoint_rows() -> Iterator[Patch]:
    from outplace.runtime.silent.rules import checkpoint_saved_mutated, checkpoint_weights_changed

    checkpoint_saved_mutated.install()
    checkpoint_weights_changed.install()
    yield from ()


_TORCH = Section("torch", _connecting, after_import("torch", "Tensor"))
_CHECKPOINTS = Section("torch.utils.checkpoint", _checkpoint_rows, after_import("torch.utils.checkpoint"))


def _connect() -> None:
    """Puts the hooks into torch."""
    import torch

    from outplace.runtime.patches import (
        anomaly_tags,
        backward,
        complex_parts,
        dynamo,
        optimizer_steps,
        saved_tensor_hooks,
        swap_tensors,
        tensor_writes,
        untracked_writes,
    )
    from outplace.runtime.silent import scan
    from outplace.runtime.silent.rules import (
        dataset_sample_mutated,
        hook_mutates_grad,
        missing_mark_dirty,
        numpy_buffer_reused,
        parameter_replaced,
        parametrized_weight_write,
        same_buffer_appended,
        state_dict_mutated,
    )
    from outplace.runtime.silent.rules import kept_references as kept

    own_files.know_torch(torch.__path__[0])
    log.connect(torch._C._autograd._get_sequence_nr, _graph_on_other_thread)
    dynamo.install()
    if tensor_writes.install():
        scan.start_afresh()
        noting = (
            optimizer_steps,
            untracked_writes,
            hook_mutates_grad,
            kept,
            parameter_replaced,
            saved_tensor_hooks,
            swap_tensors,
        )
        for part in (
            *noting,
            numpy_buffer_reused,
            state_dict_mutated,
            same_buffer_appended,
            dataset_sample_mutated,
            missing_mark_dirty,
        ):
            part.install()
        table.open(_CHECKPOINTS)
    backward.install(_backward_failed)
    instrument.put(
        OUT=tensor_writes.note_out, LEAF=tensor_writes.note_leaf, ITEM=untracked_writes.note_array, CAUGHT=_caught
    )
    instrument.put(OWNER=parametrized_weight_write.note_owner)
    instrument.put(
        ATTRIBUTE=untracked_writes.note_attribute,
        INDEX=kept.note_index,
        KEEP=kept.keeper(),
        PART=complex_parts.note_part,
    )
    if _way == "tags":
        anomaly_tags.install()
    _set_guard()


def _graph_on_other_thread() -> None:
    """A second thread builds a graph: from now on each node is tagged, since numbers no longer tell threads apart."""
    import torch

    from outplace.runtime.patches import anomaly_tags

    if torch._C._current_autograd_node() is None:  # not a checkpoint's recomputation, which stays inside its backward
        anomaly_tags.install()


def _backward_failed(frame: FrameType) -> None:
    from outplace.runtime.patches import anomaly_tags

    error = sys.exc_info()[1]
    if error is not None:
        anomaly_tags.hint_as_usual(error)
        dispatch.examine(error, frame, seen=False)


def _caught() -> None:
    """The program caught an exception itself (called at the beginning of each handler in marked code)."""
    error = sys.exc_info()[1]
    if isinstance(error, Exception):
        from outplace.runtime.patches import tensor_writes

        tensor_writes.leave_step()  # a step that raised did not come to its end
        dispatch.examine(error, caught=True)


# -- where errors surface -----------------------------------------------------------------------------------------

_undo: list[Callable[[], None]] = []


def _watch_errors(way: Way) -> None:
    """Examines exceptions wherever Python shows them: uncaught, in threads, or formatted by a logger or a worker."""
    old_init = traceback.TracebackException.__init__
    old_thread_hook, old_hook = threading.excepthook, sys.excepthook

    @functools.wraps(old_init)
    def formatting(self: Any, exc_type: Any, exc_value: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(exc_value, BaseException):
            untrimmed = exc_value.__traceback__
            dispatch.examine(exc_value)
            caller_frames.trim(exc_value)
            if args and args[0] is untrimmed:  # the caller passed the traceback as it was before
                args = (exc_value.__traceback__, *args[1:])
            elif kwargs.get("exc_traceback") is untrimmed and "exc_traceback" in kwargs:
                kwargs["exc_traceback"] = exc_value.__traceback__
        old_init(self, exc_type, exc_value, *args, **kwargs)
        if dispatch.of(exc_value) and not hasattr(exc_value, "add_note"):  # Python 3.10 has no notes
            self._str = f"{self._str}\n{dispatch.as_note(exc_value)}"

    def in_thread(details: threading.ExceptHookArgs) -> None:
        error = details.exc_value
        if error is None:
            old_thread_hook(details)
            return
        dispatch.examine(error)
        caller_frames.trim(error)
        trimmed = (details.exc_type, error, error.__traceback__, details.thread)
        old_thread_hook(threading.ExceptHookArgs(trimmed))
        _tell(error)

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if ranks.launched():
            uncaught.extend(dispatch.take_out(error))
            old_hook(kind, error, error.__traceback__)
            return
        dispatch.examine(error)
        caller_frames.trim(error)
        old_hook(kind, error, error.__traceback__)
        _tell(error)

    traceback.TracebackException.__init__ = formatting  # type: ignore[method-assign]
    threading.excepthook = in_thread
    _undo.append(lambda: setattr(traceback.TracebackException, "__init__", old_init))
    _undo.append(
        lambda: setattr(threading, "excepthook", old_thread_hook) if threading.excepthook is in_thread else None
    )
    if way == "tags":  # a program with marks is run by us: its uncaught errors come by without a hook
        sys.excepthook = hook
        _undo.append(lambda: setattr(sys, "excepthook", old_hook) if sys.excepthook is hook else None)


def _tell(error: BaseException) -> None:
    """A traceback has just been printed, with the diagnosis as its note (Python 3.10 has no notes)."""
    dispatch.told(error)
    if not hasattr(error, "add_note") and dispatch.of(error) and sys.stderr is not None:
        print(dispatch.as_note(error), file=sys.stderr)


def _unwatch_errors() -> None:
    while _undo:
        _undo.pop()()
