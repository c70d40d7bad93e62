"""From an exception to its diagnoses, which then travel on the exception itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType, TracebackType

from outplace.knowledge.errors import Match, recognise
from outplace.model import Diagnosis

ATTRIBUTE = "outplace_diagnoses"
_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

found: list[Diagnosis] = []
"""All diagnoses of this process, in the order they were made."""

listeners: list[Callable[[], None]] = []
"""Called after each new diagnosis (the JSON report is kept up to date, whatever becomes of the program)."""

_busy = False


def trim(error: BaseException) -> None:
    """Takes outplace's own frames out of the traceback."""
    first: TracebackType | None = error.__traceback__
    while first is not None and _is_ours(first):
        first = first.tb_next
    if first is not error.__traceback__:
        error.__traceback__ = first
    while first is not None:
        following = first.tb_next
        while following is not None and _is_ours(following):
            following = following.tb_next
        if following is not first.tb_next:
            first.tb_next = following
        first = following


def _is_ours(traceback: TracebackType) -> bool:
    return traceback.tb_frame.f_code.co_filename.startswith(_OWN_FOLDER)


def of(error: BaseException | None) -> tuple[Diagnosis, ...]:
    """The diagnoses that an exception carries."""
    return getattr(error, ATTRIBUTE, ())


def examine(error: BaseException, engine_frame: FrameType | None = None) -> tuple[Diagnosis, ...]:
    """Diagnoses an exception once and attaches the result; an unrelated exception is left as it is.

    `engine_frame` is torch's own frame, given while a backward is failing: the graph can then still be read.
    """
    global _busy
    if hasattr(error, ATTRIBUTE) or _busy or "torch" not in sys.modules:
        return of(error)
    match = recognise(str(error)) if isinstance(error, Exception) else None
    if match is None or not match.entry.certain:
        return ()
    if match.raised == "backward":
        engine_frame = engine_frame or _engine_frame(error.__traceback__)
        if engine_frame is None:  # still on its way out of a Function's backward; the engine's hook will see it
            return ()
    _busy = True  # reading the graph may run a backward of our own
    try:
        trim(error)
        diagnoses = _diagnose(error, match, engine_frame)
    except Exception as trouble:  # a fault of ours must never hide the user's error
        _report_fault(trouble)
        return ()
    finally:
        _busy = False
    if diagnoses:
        _attach(error, tuple(diagnoses))
    return tuple(diagnoses)


def _engine_frame(traceback: TracebackType | None) -> FrameType | None:
    """The innermost frame of torch's backward that the exception passed through."""
    frame = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_name == "_engine_run_backward":
            frame = traceback.tb_frame
        traceback = traceback.tb_next
    return frame


def _diagnose(error: BaseException, match: Match, engine_frame: FrameType | None) -> list[Diagnosis]:
    from outplace.runtime import postmortem, refused  # they need torch

    if match.raised == "backward" and engine_frame is not None:
        return postmortem.diagnose(error, match, engine_frame)
    return refused.diagnose(error, match)


def _report_fault(trouble: Exception) -> None:
    import traceback

    where = traceback.extract_tb(trouble.__traceback__)[-1]
    at = f"{os.path.basename(where.filename)}:{where.lineno}"
    print(f"outplace: could not read this failure ({type(trouble).__name__}: {trouble}, {at})", file=sys.stderr)
    if os.environ.get("OUTPLACE_DEBUG"):
        traceback.print_exception(trouble)


def _attach(error: BaseException, diagnoses: tuple[Diagnosis, ...]) -> None:
    from outplace.report.terminal import as_text

    setattr(error, ATTRIBUTE, diagnoses)
    found.extend(diagnoses)
    if hasattr(error, "add_note"):
        error.add_note(note_text(as_text(list(diagnoses))))
    for listener in listeners:
        listener()


def note_text(report: str) -> str:
    """The note, set off from the error it is attached to."""
    return "\n" + report


def take_note_off(error: BaseException) -> None:
    """Removes our note, for a caller that shows the diagnosis in its own way."""
    from outplace.report.terminal import as_text

    notes = getattr(error, "__notes__", None)
    if notes and of(error):
        ours = note_text(as_text(list(of(error))))
        error.__notes__ = [note for note in notes if note != ours]
