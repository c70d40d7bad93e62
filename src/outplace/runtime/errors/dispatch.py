"""From an exception to its diagnoses, which then travel on the exception itself."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any

from outplace import settings
from outplace.knowledge.errors import Match, recognise
from outplace.knowledge.silent_rules import lists
from outplace.model import Diagnosis
from outplace.runtime.patches.caller_frames import trim
from outplace.runtime.record.user_files import known_sources

ATTRIBUTE = "outplace_diagnoses"

found: list[Diagnosis] = []
"""All diagnoses of this process, each bug once, in the order they were made."""

untold: list[Diagnosis] = []
"""Those of them that have not been shown to anybody yet."""

listeners: list[Callable[[], None]] = []
"""Called after each new diagnosis (the JSON report is kept up to date, whatever becomes of the program)."""

_QUOTED = "Traceback (most recent call last)"
"""An exception that quotes a traceback tells of an error in another process or thread, which was examined there."""

collectors: list[list[Diagnosis]] = []
"""Lists that want all diagnoses from now on, each once (those of `outplace.watch()`)."""


def _as_errors(diagnoses: Sequence[Diagnosis]) -> str:
    return "\n".join(diagnosis.error for diagnosis in diagnoses)


as_text: Callable[[Sequence[Diagnosis]], str] = _as_errors
"""Makes the note of an exception: set by `attach` to that of its reporter."""

notes_wait = False
"""Under `outplace run` an exception gets its note when the program, a logger or a thread's end looks at it. One that
nobody looks at ends the program, and is shown below the traceback."""

_NOTE_DUE = "outplace_note_due"

_known: set[tuple[Any, ...]] = set()
_one_at_a_time = threading.RLock()
_busy = False


def start_afresh() -> None:
    """Forgets all diagnoses and listeners (in a child process, where they are the parent's)."""
    global _one_at_a_time, _busy
    found.clear()
    untold.clear()
    listeners.clear()
    _known.clear()
    _one_at_a_time, _busy = threading.RLock(), False


def of(error: BaseException | None) -> tuple[Diagnosis, ...]:
    """The diagnoses that an exception carries."""
    return getattr(error, ATTRIBUTE, ())


def examine(
    error: BaseException, engine_frame: FrameType | None = None, caught: bool = False, seen: bool = True
) -> tuple[Diagnosis, ...]:
    """Diagnoses an exception once and attaches the result; an unrelated exception is left as it is.

    `engine_frame` is torch's own frame, given while a backward is failing: the graph can then still be read. `caught`
    by the program itself, an exception is not yet one that it dies of. `seen`: somebody is about to look at it.
    """
    if "torch" not in sys.modules or not isinstance(error, Exception):
        return of(error)
    if hasattr(error, ATTRIBUTE):
        _keep(_of_writes(of(error)) if caught else of(error))  # it may come from another process
        if seen:
            _add_note(error)
        return of(error)
    for member in getattr(error, "exceptions", ()):
        examine(member, seen=seen)
    text = _message(error)
    if _QUOTED in text:
        return ()
    match = recognise(text)
    if match is None or not (match.entry.certain or match.entry.kind == "freed"):
        return ()
    if match.raised == "backward":
        engine_frame = engine_frame or _engine_frame(error.__traceback__)
        if engine_frame is None:  # still on its way out of a Function's backward; the engine's hook will see it
            return ()
    with _one_at_a_time:
        diagnoses = _examine(error, match, engine_frame)
    if diagnoses and seen:
        _add_note(error)
    return diagnoses


def _message(error: BaseException) -> str:
    """What the exception says, without a call of its own `__str__`, which may be the user's."""
    return " ".join(argument for argument in error.args if isinstance(argument, str))


def _examine(error: Exception, match: Match, engine_frame: FrameType | None) -> tuple[Diagnosis, ...]:
    global _busy
    if _busy or hasattr(error, ATTRIBUTE):
        return of(error)
    _busy = True  # reading the graph may run a backward of our own
    try:
        trim(error)
        with known_sources(), sys.modules["torch"]._C.DisableTorchFunction():  # no mode of the user's sees us
            diagnoses = tuple(_diagnose(error, match, engine_frame))
            if diagnoses:
                attach(error, diagnoses)
    except Exception as trouble:  # a fault of ours must never hide the user's error
        report_fault(trouble)
        return ()
    finally:
        _busy = False
    return diagnoses


def _engine_frame(traceback: TracebackType | None) -> FrameType | None:
    """The innermost frame of torch's backward that the exception passed through."""
    frame = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_name == "_engine_run_backward":
            frame = traceback.tb_frame
        traceback = traceback.tb_next
    return frame


def _diagnose(error: BaseException, match: Match, engine_frame: FrameType | None) -> list[Diagnosis]:
    from outplace.runtime.errors import (  # they need torch
        expanded_memory,
        freed_graph,
        immediate_errors,
        saved_error,
        selective_checkpoint,
    )

    if match.entry.name == "saved-cached" and engine_frame is not None:
        return selective_checkpoint.diagnose(error, match, engine_frame)
    if match.entry.kind == "freed" and engine_frame is not None:
        return freed_graph.diagnose(error, match, engine_frame)
    if match.raised == "backward" and engine_frame is not None:
        return saved_error.diagnose(error, match, engine_frame)
    engine_frame = engine_frame or _engine_frame(error.__traceback__)
    if match.entry.kind == "expanded" and engine_frame is not None and immediate_errors.by_library(error, engine_frame):
        return expanded_memory.diagnose(error, match, engine_frame)
    return immediate_errors.diagnose(error, match)


def report_fault(trouble: Exception) -> None:
    """Says that outplace itself has failed, and where."""
    import traceback

    where = traceback.extract_tb(trouble.__traceback__)[-1]
    at = f"{os.path.basename(where.filename)}:{where.lineno}"
    print(f"outplace: could not read this failure ({type(trouble).__name__}: {trouble}, {at})", file=sys.stderr)
    if settings.DEBUG.read():
        traceback.print_exception(trouble)


def attach(error: BaseException, diagnoses: tuple[Diagnosis, ...]) -> None:
    """Has an exception carry diagnoses."""
    setattr(error, ATTRIBUTE, diagnoses)
    setattr(error, _NOTE_DUE, True)
    if not notes_wait:
        _add_note(error)
    _keep(_of_writes(diagnoses))


def _add_note(error: BaseException) -> None:
    if vars(error).pop(_NOTE_DUE, False) and hasattr(error, "add_note"):
        error.add_note(as_note(error))


def _of_writes(diagnoses: tuple[Diagnosis, ...]) -> tuple[Diagnosis, ...]:
    """Without those that count only where the program dies of them: to come into a freed graph is no wrong write."""
    return tuple(diagnosis for diagnosis in diagnoses if diagnosis.kind != "freed")


def add(diagnosis: Diagnosis) -> None:
    """Keeps a diagnosis that no exception carries: the program goes on, and hears of it at its end."""
    _keep((diagnosis,))


def _keep(diagnoses: tuple[Diagnosis, ...]) -> None:
    new = [diagnosis for diagnosis in diagnoses if _essence(diagnosis) not in _known]
    _known.update(map(_essence, new))
    for kept in [one for one in found if any(_is_behind(one, error) for error in new)]:
        found.remove(kept)
        untold[:] = [one for one in untold if one is not kept]
    found.extend(new)
    untold.extend(new)
    for collector in collectors:
        collector += [diagnosis for diagnosis in diagnoses if diagnosis not in collector]
    for listener in listeners if new else ():
        with contextlib.suppress(Exception):  # a report that cannot be written now may not stop the program
            listener()


_APPENDED = (lists.SAME_TENSOR_APPENDED.name, lists.SAME_VIEW_APPENDED.name)


def _is_behind(silent: Diagnosis, error: Diagnosis) -> bool:
    """A list that keeps one state is heard of when the error about the writes of that state is gone."""
    if silent.cause not in _APPENDED or not error.raised_at:
        return False
    written = {mutation.site for mutation in error.mutations}
    return any(mutation.site and mutation.site in written for mutation in silent.mutations)


def _essence(diagnosis: Diagnosis) -> tuple[Any, ...]:
    """What makes two diagnoses the same bug: a loop that fails, and goes on, at every step has one."""
    saver = diagnosis.saved_by
    writers = tuple(mutation.site for mutation in diagnosis.mutations)
    return diagnosis.code, diagnosis.tensor.name, writers, diagnosis.raised_at, saver and saver.site


def chain(error: BaseException) -> list[BaseException]:
    """The exception, those that led to it, and the members of groups."""
    links: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        link = waiting.pop()
        if link is None or any(link is known for known in links):
            continue
        links.append(link)
        waiting += [link.__cause__, link.__context__, *getattr(link, "exceptions", ())]
    return links


def take_out(error: BaseException) -> list[Diagnosis]:
    """The diagnoses of an exception and of those that led to it, for a caller who shows them in its own way.

    The exceptions keep no note of them, and no frame of ours.
    """
    examine(error, seen=False)
    carried: list[Diagnosis] = []
    for link in chain(error):
        trim(link)
        _keep(of(link))
        take_note_off(link)
        told(link)
        carried += [diagnosis for diagnosis in of(link) if diagnosis not in carried]
    return carried


def told(error: BaseException) -> None:
    """The diagnoses of this exception have been shown."""
    shown = set(map(_essence, of(error)))
    untold[:] = [diagnosis for diagnosis in untold if _essence(diagnosis) not in shown]


class Note(str):
    """Our note among an exception's notes."""


def as_note(error: BaseException) -> Note:
    """What an exception carries, set off from its message."""
    with known_sources():
        return Note("\n" + as_text(of(error)))


def take_note_off(error: BaseException) -> None:
    """Removes our note, for a caller that shows the diagnosis in its own way."""
    vars(error).pop(_NOTE_DUE, None)
    notes = getattr(error, "__notes__", None)
    if notes and of(error):
        error.__notes__ = [  # type: ignore[attr-defined]
            note for note in notes if not isinstance(note, Note)
        ]
