"""Runs the user's program for a repair, each time in a new process, with repaired source instead of its files."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from outplace import settings
from outplace.knowledge.nodes import keeps_result
from outplace.model import Site
from outplace.repair.drive.evidence import Evidence, read
from outplace.repair.drive.processes import Started, Streaming
from outplace.repair.facts.bug import Bug
from outplace.source.project import OutOfTime

Telling = Callable[[str], AbstractContextManager[None]]
"""Tells the user what is being run, while it runs."""


class Runs:
    """Runs the program as often as needed. After the first run, all others together have `limit` seconds."""

    def __init__(self, words: Sequence[str], limit: float, tell: Telling) -> None:
        self._words, self._limit, self._tell = list(words), limit, tell
        self._folder = tempfile.TemporaryDirectory(prefix="outplace-fix-")
        self._seed = random.randrange(1, 2**32)
        """Of every run, so that a program without a seed computes the same in each. The next proof has another one."""
        self._count = 0
        self._first_took = self._ends_at = 0.0
        self._first: Started | None = None
        """The first run, until the others begin. What it has left running may last until then."""

    def close(self) -> None:
        """Deletes the temporary files."""
        self._folder.cleanup()

    def report(self) -> Path:
        """The report of the first run."""
        return Path(self._folder.name, "1", "report")

    def first(self) -> tuple[Evidence, Path]:
        """Runs the unchanged program. What it prints is shown as it comes, and stored."""
        start = time.monotonic()
        with self._tell(""):
            done = self._run({}, False, None)
        self._first_took = time.monotonic() - start
        self._ends_at = time.monotonic() + self._limit
        return done

    def again(self, texts: Mapping[str, str], about: str, reference: bool = False) -> tuple[Evidence, Path]:
        """Runs the program with these texts instead of its files. `about`: what is tried, for the user.

        `reference`: copy everything that backward needs.
        """
        seconds = self._seconds_for_a_run()
        if self._first is not None:
            self._first.end()
            self._first = None
        with self._tell(about):
            return self._run(texts, reference, seconds)

    def require_time(self) -> None:
        """Ends the search for repairs if the time is over."""
        if time.monotonic() > self._ends_at:
            raise OutOfTime

    def _seconds_for_a_run(self) -> float:
        """Half of the time that is left, so that others can follow; all of it if half is too little to see anything."""
        left = self._ends_at - time.monotonic()
        if left <= 0 or left < min(self._first_took, self._limit / 2):
            raise OutOfTime
        return left / 2 if left / 2 > 2 * self._first_took else left

    def _run(self, texts: Mapping[str, str], reference: bool, seconds: float | None) -> tuple[Evidence, Path]:
        """`seconds`: how long it may take. None: the first run, which the user sees, takes as long as it does."""
        self._count += 1
        visible = seconds is None
        folder = Path(self._folder.name, str(self._count))
        folder.mkdir()
        environment = dict(os.environ)
        settings.EVIDENCE.put(str(folder / "evidence"), environment)
        settings.SEED.put(self._seed, environment)
        environment.setdefault("PYTHONHASHSEED", str(self._seed))  # the order of sets of strings
        if texts:
            real = {os.path.realpath(path): text for path, text in texts.items()}
            (folder / "overlay").write_text(json.dumps(real), encoding="utf-8")
            settings.OVERLAY.put(str(folder / "overlay"), environment)
        if reference:
            settings.REFERENCE.put(True, environment)
        command = [sys.executable, "-m", "outplace", "run", "--json", str(folder / "report"), "--", *self._words]
        output = folder / "stdout"
        with open(output, "wb") as stdout, open(folder / "stderr", "wb") as stderr:
            hidden = {"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": stderr}
            streams: dict[str, Any] = {"stdout": subprocess.PIPE} if visible else hidden
            started = Started(command, environment, folder, visible, **streams)
            pipe = started.process.stdout
            streaming = Streaming(pipe, output) if pipe is not None else None
            try:
                code = started.wait(seconds)
            finally:
                if visible:
                    started.end_alone()
                    self._first = started
                else:
                    started.end()
                if streaming is not None:
                    streaming.finish()
        stopped, code = code is None, code or 0
        diagnoses = _diagnoses(folder / "report")
        repairable = [diagnosis for diagnosis in diagnoses if diagnosis["kind"] != "freed"]
        evidence = Evidence(code, repairable, stopped=stopped, came_into_freed=repairable != diagnoses)
        return read(str(folder / "evidence"), evidence), output


def _diagnoses(report: Path) -> list[dict[str, Any]]:
    with contextlib.suppress(OSError, ValueError, KeyError):
        diagnoses: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["diagnoses"]
        return diagnoses
    return []


def bug_of(diagnosis: dict[str, Any]) -> Bug:
    """The bug of a diagnosis in a report."""
    writes = [site for mutation in diagnosis["mutations"] if (site := _site(mutation["site"])) is not None]
    savers: list[tuple[Site, str]] = []
    for saved in [diagnosis["saved_by"], *diagnosis.get("also_saved_by", [])]:
        site = _site(saved["site"]) if saved else None
        if site is not None and (site, saved["saved_as"]) not in savers:
            savers.append((site, saved["saved_as"] or ""))
    made_at = _site(diagnosis.get("made_at"))
    optimizer = _site(diagnosis["optimizer_at"])
    return Bug(
        diagnosis["kind"],
        tuple(dict.fromkeys(writes)),
        tuple(savers),
        diagnosis["tensor"]["name"],
        made_at,
        error=diagnosis["error"],
        cause=diagnosis["cause"] or _cause(diagnosis["saved_by"]),
        optimizer_line=optimizer.line if optimizer is not None else None,
        from_run=True,
        raised_at=_site(diagnosis["raised_at"]),
    )


def _cause(saved: dict[str, Any] | None) -> str:
    return "result" if saved and keeps_result(saved["node"], saved["saved_as"] or "") else ""


def _site(data: dict[str, Any] | None) -> Site | None:
    if not data:
        return None
    names = ("file", "line", "end_line", "column", "end_column", "function", "text")
    values = {name: data[name] for name in names}
    values["file"] = os.path.realpath(values["file"])
    return Site(**values)


def identity(diagnosis: dict[str, Any]) -> tuple[Any, ...]:
    """What identifies a bug, without line numbers and without the clones that a repair adds."""
    saved = (diagnosis["saved_by"] or {}).get("site") or {}
    texts = tuple(_as_written(mutation["site"]["text"]) for mutation in diagnosis["mutations"] if mutation["site"])
    return diagnosis["kind"], texts, _as_written(saved.get("text", ""))


def _as_written(text: str) -> str:
    return text.replace(".clone()", "")
