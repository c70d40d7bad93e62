"""One run of `outplace run` with its child processes: where diagnoses are gathered, and the report that is left behind.

Each process of a session leaves the report of its own diagnoses in the session's folder, and then puts the reports of
all of them together into the file that was asked for. So that file is true at every moment, whichever process dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from outplace.cli.errors import OutplaceError
from outplace.report import json as json_report
from outplace.report import words
from outplace.runtime import diagnose
from outplace.runtime.usercode import known_sources

FOLDER = "OUTPLACE_SESSION"
"""Environment variable: the folder where the processes of a session leave their reports."""

STARTED_IN = "OUTPLACE_STARTED_IN"
"""Environment variable: the working folder at the start, which reports show paths relative to."""

_TARGETS = "targets"


class Targets(NamedTuple):
    """The files that a report was asked for in."""

    json: str | None = None
    html: str | None = None


class Session:
    """The process that `outplace run` started."""

    def __init__(self, targets: Targets) -> None:
        self._pid = os.getpid()
        self._folder: str | None = None
        self._report: _Report | None = None
        os.environ["OUTPLACE"] = "1"
        words.working_folder = os.environ[STARTED_IN] = os.getcwd()
        if any(targets):
            self._start_report(targets)
        start_in_forks()

    def _start_report(self, targets: Targets) -> None:
        self._folder = os.environ[FOLDER] = tempfile.mkdtemp(prefix="outplace-")
        with open(os.path.join(self._folder, _TARGETS), "w", encoding="utf-8") as file:
            json.dump(targets._asdict(), file)
        self._report = _Report(self._folder)
        try:
            self._report.leave()
        except OutplaceError:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        diagnose.listeners.append(self._report.leave)

    def close(self) -> None:
        """Writes the last report and clears up. A forked child that comes here leaves that to its parent."""
        if self._report is None or self._folder is None or os.getpid() != self._pid:
            return
        try:
            self._report.leave(last=True)
        except OutplaceError as error:  # the program's exit code counts for more
            print(f"outplace: {error}", file=sys.stderr)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)


class _Report:
    """What this process leaves in the session's folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        # In the order of starting: the diagnoses of the first process come first.
        self._own = os.path.join(folder, f"{time.time_ns():020}-{os.getpid()}.json")

    def leave(self, last: bool = False) -> None:
        """Writes the report of this process and puts all of them together."""
        if not os.path.isdir(self._folder):  # the session is over
            return
        with known_sources():
            json_report.write(self._own, diagnose.found, _torch_version())
        with open(os.path.join(self._folder, _TARGETS), encoding="utf-8") as file:
            targets = Targets(**json.load(file))
        with _alone(self._folder):
            together = _together(self._folder)
            if targets.json is not None and _is_due(targets.json, last):
                json_report.write_data(targets.json, together)
            if targets.html is not None and _is_due(targets.html, last):
                from outplace.report import html  # only who asks for it pays for jinja2

                html.write(targets.html, together)


def _is_due(target: str, last: bool) -> bool:
    """A pipe is written once, at the end."""
    return last or not os.path.exists(target) or os.path.isfile(target)


def _torch_version() -> str | None:
    torch = sys.modules.get("torch")
    return getattr(torch, "__version__", None)


def _together(folder: str) -> dict[str, Any]:
    """The diagnoses of all processes, each bug once."""
    whole = json_report.report((), None)
    known = []
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".json"):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            part = json.load(file)
        whole["torch"] = whole["torch"] or part["torch"]
        for source, lines in part["sources"].items():
            whole["sources"].setdefault(source, {}).update(lines)
        mine = [entry for entry in part["diagnoses"] if _essence(entry) not in known]
        whole["diagnoses"] += mine
        known += [_essence(entry) for entry in mine]
    return whole


def _essence(entry: dict[str, Any]) -> tuple[Any, ...]:
    lines = tuple((m["site"]["file"], m["site"]["line"]) for m in entry["mutations"] if m["site"])
    raised = entry["raised_at"]
    return entry["kind"], lines, (raised["file"], raised["line"]) if raised else None


@contextlib.contextmanager
def _alone(folder: str) -> Iterator[None]:
    """Keeps the other processes of the session from writing at the same time."""
    try:
        import fcntl
    except ImportError:  # Windows: the last to write wins
        yield
        return
    with open(os.path.join(folder, "lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def start_in_child() -> None:
    """In a forked or spawned child: its diagnoses are its own."""
    folder = os.environ.get(FOLDER)
    words.working_folder = os.environ.get(STARTED_IN)
    diagnose.start_afresh()
    if folder is not None and os.path.isdir(folder):
        diagnose.listeners.append(_Report(folder).leave)


_forks_watched = False


def start_in_forks() -> None:
    """From now on every forked child does that by itself."""
    global _forks_watched
    if not _forks_watched and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=start_in_child)
        _forks_watched = True
