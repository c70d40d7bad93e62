"""From an exception to its diagnoses, which the exception then carries."""

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

not_shown: list[Diagnosis] = []
"""The diagnoses that have not been shown yet."""

listeners: list[Callable[[], None]] = []
"""Called after each new diagnosis. This keeps the JSON report up to date even if the program dies."""

_QUOTED = "Traceback (most recent call last)"
"""An exception that quotes a traceback reports an error of another process or thread, which was examined there."""

collectors: list[list[Diagnosis]] = []
"""Lists that collect all new diagnoses, each once (those of `outplace.watch()`)."""


def _as_errors(diagnoses: Sequence[Diagnosis]) -> str:
    return "\n".join(diagnosis.error for diagnosis in diagnoses)


as_text: Callable[[Sequence[Diagnosis]], str] = _as_errors
"""Makes the note of an exception. `attach` sets it to that of its reporter."""

notes_wait = False
"""Under `outplace run` an exception gets its note when the program, a logger or a thread's end reads it.

An exception that is never read ends the program, and the diagnosis is shown below the traceback.
"""

_NOTE_DUE = "outplace_note_due"
_NOTE_OFF = "outplace_note_off"
"""On Python 3.10: an exception whose diagnosis is shown by somebody else."""

_known: set[tuple[Any, ...]] = set()
_one_at_a_time = threading.RLock()
_busy = False


def reset() -> None:
    """Drops all diagnoses and listeners (in a child process, where they belong to the parent)."""
    global _one_at_a_time, _busy
    found.clear()
    not_shown.clear()
    listeners.clear()
    _known.clear()
    _one_at_a_time, _busy = threading.RLock(), False


def of(error: BaseException | None) -> tuple[Diagnosis, ...]:
    """The diagnoses that an exception carries."""
    return getattr(error, ATTRIBUTE, ())


def examine(
    error: BaseException, engine_frame: FrameType | None = None, caught: bool = False, seen: bool = True
) -> tuple[Diagnosis, ...]:
    """Diagnoses an exception once and attaches the result. An unrelated exception stays unchanged.

    `engine_frame` is torch's frame, given while a backward is failing: the graph can still be read then. `caught`: the
    program caught the exception itself, so it may survive it. `seen`: the exception is about to be shown.
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
    inner = of(getattr(error, "inner_exception", None))  # torch.compile wraps the errors of its backends
    if inner:
        attach(error, inner)
        return inner
    text = _message(error)
    if _QUOTED in text:
        return ()
    match = recognise(text)
    if match is None or not (match.entry.certain or match.entry.kind == "freed"):
        return ()
    if match.raised == "backward":
        engine_frame = engine_frame or _engine_frame(error.__traceback__)
        if engine_frame is None:  # it is still leaving a Function's backward; the engine's hook will see it
            return ()
    with _one_at_a_time:
        diagnoses = _examine(error, match, engine_frame)
    if diagnoses and seen:
        _add_note(error)
    return diagnoses


def _message(error: BaseException) -> str:
    """The exception's message, without calling its `__str__`, which may be the user's."""
    return " ".join(argument for argument in error.args if isinstance(argument, str))


def _examine(error: Exception, match: Match, engine_frame: FrameType | None) -> tuple[Diagnosis, ...]:
    global _busy
    if _busy or hasattr(error, ATTRIBUTE):
        return of(error)
    _busy = True  # reading the graph may run another backward
    try:
        trim(error)
        with known_sources(), sys.modules["torch"]._C.DisableTorchFunction():  # no mode of the user sees this
            diagnoses = tuple(_diagnose(error, match, engine_frame))
            if diagnoses:
                attach(error, diagnoses)
    except Exception as trouble:  # an error in outplace must never hide the user's error
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
    """Prints that outplace itself has failed, and where."""
    import traceback

    where = traceback.extract_tb(trouble.__traceback__)[-1]
    at = f"{os.path.basename(where.filename)}:{where.lineno}"
    print(f"outplace: could not read this failure ({type(trouble).__name__}: {trouble}, {at})", file=sys.stderr)
    if settings.DEBUG.read():
        traceback.print_exception(trouble)


def attach(error: BaseException, diagnoses: tuple[Diagnosis, ...]) -> None:
    """Makes an exception carry diagnoses."""
    setattr(error, ATTRIBUTE, diagnoses)
    setattr(error, _NOTE_DUE, True)
    if not notes_wait:
        _add_note(error)
    _keep(_of_writes(diagnoses))


def _add_note(error: BaseException) -> None:
    if vars(error).pop(_NOTE_DUE, False) and hasattr(error, "add_note"):
        error.add_note(as_note(error))


def _of_writes(diagnoses: tuple[Diagnosis, ...]) -> tuple[Diagnosis, ...]:
    """Leaves out diagnoses that matter only if the program dies of them. Entering a freed graph is no wrong write."""
    return tuple(diagnosis for diagnosis in diagnoses if diagnosis.kind != "freed")


def add(diagnosis: Diagnosis) -> None:
    """Adds a diagnosis that no exception carries. The program goes on, and the diagnosis is shown at its end."""
    _keep((diagnosis,))


def _keep(diagnoses: tuple[Diagnosis, ...]) -> None:
    new = [diagnosis for diagnosis in diagnoses if _identity(diagnosis) not in _known]
    _known.update(map(_identity, new))
    for kept in [candidate for candidate in found if any(_is_behind(candidate, error) for error in new)]:
        found.remove(kept)
        not_shown[:] = [item for item in not_shown if item is not kept]
    found.extend(new)
    not_shown.extend(new)
    for collector in collectors:
        collector += [diagnosis for diagnosis in diagnoses if diagnosis not in collector]
    for listener in listeners if new else ():
        with contextlib.suppress(Exception):  # a report that cannot be written must not stop the program
            listener()


_APPENDED = (lists.SAME_TENSOR_APPENDED.name, lists.SAME_VIEW_APPENDED.name)


def _is_behind(silent: Diagnosis, error: Diagnosis) -> bool:
    """Does the error cover this silent bug? A list of one repeated state is reported once the writes are repaired."""
    if silent.cause not in _APPENDED or not error.raised_at:
        return False
    written = {mutation.site for mutation in error.mutations}
    return any(mutation.site and mutation.site in written for mutation in silent.mutations)


def _identity(diagnosis: Diagnosis) -> tuple[Any, ...]:
    """What identifies a bug. A loop that fails at every step, and continues, has one bug."""
    saver = diagnosis.saved_by
    writers = tuple(mutation.site for mutation in diagnosis.mutations)
    return diagnosis.code, diagnosis.tensor.name, writers, diagnosis.raised_at, saver and saver.site


def chain(error: BaseException) -> list[BaseException]:
    """The exception, its causes and contexts, and the members of groups."""
    links: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        link = waiting.pop()
        if link is None or any(link is known for known in links):
            continue
        links.append(link)
        waiting += [link.__cause__, link.__context__, *getattr(link, "exceptions", ())]
    return links


def take_diagnoses(error: BaseException) -> list[Diagnosis]:
    """The diagnoses of an exception and its causes, for a caller that shows them itself.

    Removes outplace's notes and frames from the exceptions.
    """
    examine(error, seen=False)
    carried: list[Diagnosis] = []
    for link in chain(error):
        trim(link)
        _keep(of(link))
        take_note_off(link)
        mark_as_shown(link)
        carried += [diagnosis for diagnosis in of(link) if diagnosis not in carried]
    return carried


def mark_as_shown(error: BaseException) -> None:
    """Marks the diagnoses of this exception as shown."""
    shown = set(map(_identity, of(error)))
    not_shown[:] = [diagnosis for diagnosis in not_shown if _identity(diagnosis) not in shown]


class Note(str):
    """outplace's note among an exception's notes."""


def as_note(error: BaseException) -> Note:
    """The text of an exception's diagnoses, separated from its message."""
    with known_sources():
        return Note("\n" + as_text(of(error)))


def lacks_note(error: BaseException) -> bool:
    """Has the exception a diagnosis that no note shows? Python 3.10 has no notes."""
    return bool(of(error)) and not hasattr(error, "add_note") and _NOTE_OFF not in vars(error)


def take_note_off(error: BaseException) -> None:
    """Removes outplace's note, for a caller that shows the diagnosis itself."""
    vars(error).pop(_NOTE_DUE, None)
    if lacks_note(error):
        vars(error)[_NOTE_OFF] = True
    notes = getattr(error, "__notes__", None)
    if notes and of(error):
        error.__notes__ = [  # type: ignore[attr-defined]
            note for note in notes if not isinstance(note, Note)
        ]
