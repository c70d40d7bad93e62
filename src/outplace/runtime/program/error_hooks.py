"""Examines exceptions wherever Python shows them.

That is: uncaught, in threads, or formatted by a logger or a worker.
"""

from __future__ import annotations

import functools
import sys
import threading
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from outplace.model import Diagnosis
from outplace.runtime.errors import dispatch
from outplace.runtime.patches import caller_frames
from outplace.runtime.patches.table import Patch, replaced
from outplace.runtime.program import ranks

uncaught: list[Diagnosis] = []
"""The error that ended this process, if it is one of several ranks. It is shown once for all ranks, at the end."""


def formatting() -> Iterator[Patch]:
    """The hooks of every process that is attached."""
    why = "An exception that is formatted carries its diagnosis, and no frame of ours."
    yield replaced(traceback.TracebackException, "__init__", _make_init, why)
    why = "An exception that ends a thread is diagnosed."
    yield replaced(threading, "excepthook", _make_thread_hook, why)


def ending() -> Iterator[Patch]:
    """The hook of a process that outplace did not start. (`outplace run` sees uncaught errors without it.)"""
    why = "An exception that ends the program is diagnosed."
    yield replaced(sys, "excepthook", _make_hook, why)


def _make_init(original: Any) -> Any:
    @functools.wraps(original)
    def formatting(self: Any, exc_type: Any, exc_value: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(exc_value, BaseException):
            untrimmed = exc_value.__traceback__
            dispatch.examine(exc_value)
            caller_frames.trim(exc_value)
            if args and args[0] is untrimmed:  # the caller passed the untrimmed traceback
                args = (exc_value.__traceback__, *args[1:])
            elif kwargs.get("exc_traceback") is untrimmed and "exc_traceback" in kwargs:
                kwargs["exc_traceback"] = exc_value.__traceback__
        original(self, exc_type, exc_value, *args, **kwargs)
        if exc_value is not None and dispatch.lacks_note(exc_value):
            self._str = f"{self._str}\n{dispatch.as_note(exc_value)}"

    return formatting


def _make_thread_hook(original: Any) -> Any:
    def in_thread(details: threading.ExceptHookArgs) -> None:
        error = details.exc_value
        if error is None:
            original(details)
            return
        dispatch.examine(error)
        caller_frames.trim(error)
        trimmed = (details.exc_type, error, error.__traceback__, details.thread)
        original(threading.ExceptHookArgs(trimmed))
        _tell(error)

    return in_thread


def _make_hook(original: Any) -> Any:
    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if ranks.launched():
            uncaught.extend(dispatch.take_diagnoses(error))
            original(kind, error, error.__traceback__)
            return
        dispatch.examine(error)
        caller_frames.trim(error)
        original(kind, error, error.__traceback__)
        _tell(error)

    return hook


def _tell(error: BaseException) -> None:
    """A traceback was printed. Prints the diagnosis too if no note has shown it."""
    dispatch.mark_as_shown(error)
    if dispatch.lacks_note(error) and sys.stderr is not None:
        print(dispatch.as_note(error), file=sys.stderr)
