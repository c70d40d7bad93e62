"""Checks one file: reads it, analyses it, and applies its noqa comments."""

from __future__ import annotations

import ast
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from outplace.checking import noqa, notebook, rules
from outplace.checking.cache import digest
from outplace.checking.outcome import Failure, Note, Outcome
from outplace.files import reading
from outplace.files.parsable import first_part
from outplace.files.quiet import quietly

if TYPE_CHECKING:
    from outplace.model import Finding
    from outplace.source.project import Project


def check_path(path: str, project: Project, fixes: bool = True) -> tuple[Outcome, str]:
    """The findings of a file, and the digest of its content."""
    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except OSError as error:
        return Outcome(path, failure=unreadable(path, error)), ""
    return check_data(path, data, project, fixes), digest(data)


def unreadable(path: str, error: OSError) -> Failure:
    """The failure for a file that cannot be opened."""
    return Failure(path, f"cannot be read: {(error.strerror or str(error)).lower()}")


def check_data(path: str, data: bytes, project: Project, fixes: bool = True) -> Outcome:
    """The findings of a file with this content. Never raises: an error becomes a failure in the outcome."""
    skipped = reading.too_large(path, len(data))
    if skipped is not None:
        return Outcome(path, notes=(Note(path, skipped, None, True),))
    try:
        book = notebook.read(data) if path.endswith(notebook.SUFFIX) else None
        source = book.source if book else reading.decode(data)
    except reading.Unreadable as error:
        return Outcome(path, failure=Failure(path, str(error), error.line))
    except Exception as error:
        return Outcome(path, failure=internal(path, error))
    outcome = check_text(path, source, project, fixes)
    return _by_cell(outcome, book) if book else outcome


def unparsable(path: str) -> Failure | None:
    """Why a file is not Python; None if it is. The analysis does not parse files that have nothing to do with torch."""
    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except OSError as error:
        return unreadable(path, error)
    return unparsable_data(path, data)


def unparsable_data(path: str, data: bytes) -> Failure | None:
    """The same for a content."""
    failure = None
    if reading.too_large(path, len(data)):
        return None
    try:
        book = notebook.read(data) if path.endswith(notebook.SUFFIX) else None
        source = book.source if book else reading.decode(data)
        with quietly():
            if first_part(source) is source:
                ast.parse(source)
    except reading.Unreadable as error:
        return Failure(path, str(error), error.line)
    except SyntaxError as error:
        failure = Failure(path, f"SyntaxError: {error.msg}", error.lineno or 1)
        return replace(failure, **_place(failure, book)) if book else failure
    except (ValueError, RecursionError, MemoryError):  # the analysis tells, if it is run
        pass
    return failure


MOST_SECONDS, MOST_MEMORY = 9.0, 440 << 20
"""CPU time and memory for a file and the fixes of its findings."""


def check_text(path: str, source: str, project: Project, fixes: bool = True) -> Outcome:
    """The findings of a text with `\\n` line ends. `fixes`: add a fix to each finding."""
    from outplace.source.project import within

    try:
        with within(MOST_SECONDS, MOST_MEMORY):
            return _analyse(path, source, project, fixes)
    except Exception as error:
        return Outcome(path, failure=internal(path, error))


def _analyse(path: str, source: str, project: Project, fixes: bool) -> Outcome:
    from outplace.source.analysis import check_file

    with quietly():  # the user's own warnings, from parsing
        checked = check_file(path, source, project)
    failure = Failure(path, checked.error.message, checked.error.line) if checked.error else None
    findings = tuple(finding for finding in checked.findings if finding.site.file == path)
    others = (finding for finding in checked.findings if finding.site.file != path)
    elsewhere = tuple(finding for finding in others if not _suppressed(finding, project))
    comments = noqa.read(first_part(source), findings)
    notes = tuple(
        Note(path, f"noqa names no rule: {word}; {rules.hint(word)}", line) for line, word in comments.unknown
    )
    if checked.ran_out:
        notes = (*notes, Note(path, "takes too long to analyse; the rest of the file was left out", None, True))
    else:
        text = "is too long to follow to its end; a part of it was left out"
        notes += tuple(Note(path, f"{name} {text}", line, cut=True) for name, line in checked.cut)
    findings = noqa.unsuppressed(findings, comments)
    if fixes and not checked.ran_out:
        findings = _with_fixes(path, source, findings, project)
    return Outcome(path, (*findings, *elsewhere), failure, notes, checked.dependencies)


def _suppressed(finding: Finding, project: Project) -> bool:
    """Does a comment in another file of the project suppress this finding?"""
    source = project.unsaved(finding.site.file)
    try:
        if source is None:
            with open(finding.site.file, "rb") as stream:
                source = reading.decode(stream.read())
    except (OSError, reading.Unreadable):
        return False
    return not noqa.unsuppressed((finding,), noqa.read(source, (finding,)))


def _with_fixes(path: str, source: str, findings: tuple[Finding, ...], project: Project) -> tuple[Finding, ...]:
    if not findings:
        return findings
    from outplace.repair.drive.from_source import with_fixes
    from outplace.source.analysis import check_file

    return tuple(with_fixes(path, source, findings, lambda path, text: check_file(path, text, project).all_findings()))


def internal(path: str, error: BaseException) -> Failure:
    """A bug of outplace itself: one line for the report, with the place in our code."""
    trace, spot = error.__traceback__, ""
    while trace is not None:
        code = trace.tb_frame.f_code
        spot = f" at {os.path.basename(code.co_filename)}:{trace.tb_lineno}"
        trace = trace.tb_next
    text = " ".join(str(error).split())[:200]
    message = f"internal error of outplace, please report it: {type(error).__name__}: {text}{spot}"
    return Failure(path, message, internal=True)


def _by_cell(outcome: Outcome, book: notebook.Notebook) -> Outcome:
    failure = outcome.failure
    if failure and failure.line:
        failure = replace(failure, **_place(failure, book))
    findings = tuple(book.in_cell(finding, outcome.file) for finding in outcome.findings)
    notes = tuple(replace(note, **_place(note, book)) for note in outcome.notes)
    return Outcome(outcome.file, findings, failure, notes, outcome.dependencies)


def _place(about: Failure | Note, book: notebook.Notebook) -> dict[str, Any]:
    cell, line = book.locate(about.line or 1)
    return {"file": notebook.cell_name(about.file, cell), "line": line}
