"""Attaches outplace to this process, and detaches it."""

from __future__ import annotations

import threading

from outplace import settings
from outplace.runtime.errors import dispatch
from outplace.runtime.patches.table import Section
from outplace.runtime.program.attachment import Attachment, Way
from outplace.runtime.program.reporter import Reporter
from outplace.runtime.silent import reporting

_attachment: Attachment | None = None
_guards = 0
"""How many callers have asked for the guard."""
lock = threading.RLock()


def attach(way: Way, reporter: Reporter, guard: bool = False, strict: bool = False) -> None:
    """Starts recording in this process; `guard` and `strict` are as in `outplace.watch`."""
    global _attachment
    settings.check()
    with lock:
        dispatch.as_text = reporter.note
        if _attachment is None:
            _attachment = Attachment(way)
        _attachment.open(way)
        ask_for(guard, strict)


def ask_for(guard: bool, strict: bool, times: int = 1) -> None:
    """Counts the callers that want the guard and exceptions. `times=-1` takes one back."""
    global _guards
    _guards += times * guard
    reporting.strict += times * strict
    if _attachment is not None:
        _attachment.set_guard(_guards > 0)


def detach() -> None:
    """Stops recording and undoes all patches."""
    global _attachment
    with lock:
        if _attachment is not None:
            _attachment.close()
        _attachment = None


def attached() -> bool:
    """Is outplace recording in this process?"""
    return _attachment is not None


def put(section: Section) -> None:
    """Puts one more section in place until `detach`."""
    with lock:
        if _attachment is not None:
            _attachment.table.open(section)
