"""Attaches outplace to this process, and detaches it."""

from __future__ import annotations

import threading
from types import FrameType

from outplace import settings
from outplace.runtime.errors import dispatch
from outplace.runtime.patches import loaded_code
from outplace.runtime.patches.table import Section
from outplace.runtime.program.attachment import Attachment, Way
from outplace.runtime.program.reporter import Reporter
from outplace.runtime.silent import reporting

_attachment: Attachment | None = None
_guards = 0
"""How many callers have asked for the guard."""
lock = threading.RLock()


def attach(
    way: Way, reporter: Reporter, guard: bool = False, strict: bool = False, block: FrameType | None = None
) -> None:
    """Starts recording in this process; `guard` and `strict` are as in `outplace.watch`.

    `block` is the frame of a `with` block, if recording ends with that block.
    """
    global _attachment
    settings.check()
    with lock:
        dispatch.as_text = reporter.note
        if _attachment is None:
            _attachment = Attachment(way)
            if block is not None:
                loaded_code.watch(block)
        _attachment.open(way)
        count_callers(guard, strict)


def count_callers(guard: bool, strict: bool, times: int = 1) -> None:
    """Counts the callers that want the guard and exceptions. `times=-1` takes one back."""
    global _guards
    _guards += times * guard
    reporting.strict += times * strict
    if _attachment is not None:
        _attachment.set_guard(_guards > 0)


def continue_after_block() -> None:
    """Recording goes on after the block that started it. Frames around that block run again, and have no marks."""
    if _attachment is not None and loaded_code.within is not None:
        _attachment.tag_all()


def detach() -> None:
    """Stops recording and undoes all patches."""
    global _attachment
    with lock:
        if _attachment is not None:
            _attachment.close()
        _attachment = None
        loaded_code.within = None


def attached() -> bool:
    """Is outplace recording in this process?"""
    return _attachment is not None


def put(section: Section) -> None:
    """Puts one more section in place until `detach`."""
    with lock:
        if _attachment is not None:
            _attachment.table.open(section)
