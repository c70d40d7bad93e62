"""One `outplace run` with its child processes: collects the diagnoses and writes the report.

Each process of a session writes the report of its own diagnoses into the session's folder. Then it merges the reports
of all processes into the requested file. So that file is valid at every moment, whichever process dies.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from outplace import settings
from outplace.errors import OutplaceError
from outplace.files import naming
from outplace.files.writing import replace_text
from outplace.model import Diagnosis
from outplace.runtime.errors import dispatch
from outplace.runtime.patches.table import Section, Undo, registered
from outplace.runtime.program import ranks
from outplace.runtime.program.reporter import Reporter
from outplace.runtime.record.user_files import known_sources

_TARGETS = "targets"


class Targets(NamedTuple):
    """The files to write reports to."""

    json: str | None = None
    html: str | None = None


class Session:
    """The process that `outplace run` started: a program, one rank of a program, or the launcher of its ranks."""

    def __init__(self, targets: Targets, reporter: Reporter, is_launcher: bool = False) -> None:
        self._pid = os.getpid()
        self._reporter = reporter
        self._folder: str | None = None
        self._report: _Report | None = None
        settings.ENABLED.put(True)
        naming.working_folder = os.getcwd()
        settings.STARTED_IN.put(naming.working_folder)
        if any(targets) or is_launcher or ranks.launched():
            self._start_report(targets)
        start_in_forks(reporter)

    def _start_report(self, targets: Targets) -> None:
        _sweep()
        self._folder = ranks.meeting_place() if ranks.launched() else _new_folder()
        settings.SESSION.put(self._folder)
        if ranks.launched():
            ranks.join(self._folder)
        replace_text(Path(self._folder, _TARGETS), json.dumps(targets._asdict()))
        self._report = _Report(self._folder, self._reporter)
        try:
            self._report.leave()
        except OutplaceError:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        dispatch.listeners.append(self._report.leave)

    def close(self) -> None:
        """Writes the last report and cleans up. A forked child leaves that to its parent."""
        if self._report is None or self._folder is None or os.getpid() != self._pid:
            return
        try:
            self._report.leave(last=True)
        except OutplaceError as error:  # the program's exit code matters more
            print(f"outplace: {error}", file=sys.stderr)
        except Exception as trouble:
            dispatch.report_fault(trouble)
        finally:
            if not ranks.launched() or _is_last_rank(self._folder):
                shutil.rmtree(self._folder, ignore_errors=True)


def _new_folder() -> str:
    return tempfile.mkdtemp(prefix=f"outplace-{os.getpid()}-")


def _is_last_rank(folder: str) -> bool:
    """Have all ranks of this machine ended? A killed rank never says so; see `_sweep`."""
    try:
        Path(folder, f"{os.getpid()}.ended").touch()
        return sum(name.endswith(".ended") for name in os.listdir(folder)) >= ranks.here()
    except OSError:  # it is gone
        return False


_A_DAY = 24 * 60 * 60


def _sweep() -> None:
    """Removes the folders of killed sessions, whose process has been gone for a day."""
    for path in Path(tempfile.gettempdir()).glob("outplace-[0-9]*-*"):
        with contextlib.suppress(OSError, ValueError):
            if time.time() - path.stat().st_mtime > _A_DAY and not _is_running(int(path.name.split("-")[1])):
                shutil.rmtree(path, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it belongs to another user
        return True
    return True


def show(reporter: Reporter, diagnoses: Sequence[Diagnosis], survived: bool) -> None:
    """Shows those of these diagnoses that this process has to show."""
    with diagnoses_to_show(diagnoses) as mine, known_sources():
        reporter.show(mine, survived)


@contextlib.contextmanager
def diagnoses_to_show(diagnoses: Sequence[Diagnosis]) -> Iterator[list[Diagnosis]]:
    """Gives the diagnoses that this process has to show, inside the block. Several ranks show each bug once."""
    folder = settings.SESSION.read() or None
    with ranks.diagnoses_to_show(diagnoses, folder, lambda: _ranks_by_bug(folder) if folder else {}) as mine:
        yield mine


def _ranks_by_bug(folder: str) -> dict[str, list[int]]:
    try:
        return {bug: found for bug, (_, found) in _bugs(_parts(folder)).items()}
    except OSError:  # the other ranks have ended
        return {}


class _Report:
    """The report that this process leaves in the session's folder."""

    def __init__(self, folder: str, reporter: Reporter) -> None:
        self._folder, self._reporter = folder, reporter
        # In the order of starting: the diagnoses of the first process come first.
        self._own = os.path.join(folder, f"{time.time_ns():020}-{os.getpid()}.json")

    def leave(self, last: bool = False) -> None:
        """Writes the report of this process and merges all reports."""
        if not os.path.isdir(self._folder):  # the session is over
            return
        with known_sources():
            part = self._reporter.data(dispatch.found, _torch_version())
        part["rank"] = ranks.rank()
        part["bugs"] = list(map(ranks.bug_id, dispatch.found))
        replace_text(Path(self._own), json.dumps(part))
        targets = _targets(self._folder)
        if not any(targets):
            return
        with _alone(self._folder):
            together = self._together(_parts(self._folder))
            if targets.json is not None and _is_due(targets.json, last):
                self._reporter.write(targets.json, "json", together)
            if targets.html is not None and _is_due(targets.html, last):
                self._reporter.write(targets.html, "html", together)

    def _together(self, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The merged report of all processes."""
        whole = self._reporter.data((), next((part["torch"] for part in parts if part["torch"]), None))
        for part in parts:
            for source, lines in part["sources"].items():
                whole["sources"].setdefault(source, {}).update(lines)
        whole["diagnoses"] = [{**entry, "ranks": sorted(on)} for entry, on in _bugs(parts).values()]
        return whole


def _targets(folder: str) -> Targets:
    try:
        with open(os.path.join(folder, _TARGETS), encoding="utf-8") as file:
            return Targets(**json.load(file))
    except FileNotFoundError:  # the ranks of a launcher that outplace did not start
        return Targets()


def _is_due(target: str, last: bool) -> bool:
    """Is this target to be written now? A pipe is written once, at the end."""
    return last or not os.path.exists(target) or os.path.isfile(target)


def _torch_version() -> str | None:
    torch = sys.modules.get("torch")
    return getattr(torch, "__version__", None)


# -- merging --------------------------------------------------------------------------------------------------------


def _parts(folder: str) -> list[dict[str, Any]]:
    """The reports of all processes of a session, in the order of their starts."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(Path(folder).glob("*.json"))]


def _bugs(parts: Sequence[dict[str, Any]]) -> dict[str, tuple[dict[str, Any], list[int]]]:
    """Each bug once, with the ranks that have it."""
    found: dict[str, tuple[dict[str, Any], list[int]]] = {}
    for part in parts:
        for bug, entry in zip(part["bugs"], part["diagnoses"], strict=True):
            _, on = found.setdefault(bug, (entry, []))
            if part["rank"] is not None and part["rank"] not in on:
                on.append(part["rank"])
    return found


@contextlib.contextmanager
def _alone(folder: str) -> Iterator[None]:
    """Locks the session's folder, so that only one process writes at a time."""
    try:
        import fcntl
    except ImportError:  # Windows: the last to write wins
        yield
        return
    with open(os.path.join(folder, "lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def start_in_child(reporter: Reporter) -> None:
    """Starts a forked or spawned child, which has its own diagnoses."""
    if ranks.launched() and not settings.SESSION.read():
        settings.SESSION.put(ranks.meeting_place())
    folder = settings.SESSION.read()
    naming.working_folder = settings.STARTED_IN.read() or None
    dispatch.reset()
    if os.path.isdir(folder):
        if ranks.launched():
            ranks.join(folder)
        dispatch.listeners.append(_Report(folder, reporter).leave)


_forks_watched = False


def start_in_forks(reporter: Reporter) -> None:
    """Makes every forked child start itself in this way."""
    for row in forks(reporter).rows():
        row.put()


def forks(reporter: Reporter) -> Section:
    """The patch of Python that does this."""
    why = "A forked child leaves a report of its own."
    stays = "It stays: Python cannot remove it."
    return Section("forks", lambda: [registered("os.register_at_fork", lambda: _watch_forks(reporter), why, stays)])


def _watch_forks(reporter: Reporter) -> Undo:
    global _forks_watched
    if not _forks_watched and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=functools.partial(start_in_child, reporter))
        _forks_watched = True
    return bool
