"""Many files checked: those that are known are taken from the cache, the others shared out over the cores."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from outplace.checking import one
from outplace.checking.cache import Cache, digest
from outplace.checking.notebook import split_cell
from outplace.checking.outcome import Failure, Note, Outcome
from outplace.files import reading

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from outplace.model import Finding
    from outplace.source.project import Project

SMALL = 400_000
"""Bytes; less than this is done before a pool of processes has started."""
PIECES = 8
"""Pieces of work for each process: enough to even out, few enough to parse shared files seldom."""

Progress = Callable[[int, int], None]
"""Told how many of how many files are done."""


@dataclass(frozen=True)
class Work:
    """A file that has to be analysed."""

    path: str
    size: int


def check(
    files: Sequence[str],
    roots: Sequence[str],
    cache: Cache | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> list[Outcome]:
    """The outcomes in the order of the files; those without anything to analyse are left out."""
    outcomes: dict[str, Outcome] = {}
    works: list[Work] = []
    for path in files:
        triaged = _triage(path, cache)
        if isinstance(triaged, Work):
            works.append(triaged)
        elif triaged is not None:
            outcomes[path] = triaged
    done = len(files) - len(works)
    for outcome, own in _analyse(works, roots, jobs):
        outcomes[outcome.file] = outcome
        if cache is not None and own:
            cache.put(own, outcome)
        done += 1
        if progress is not None:
            progress(done, len(files))
    _bring_home(outcomes, files)
    return [outcomes[path] for path in files if path in outcomes]


def _bring_home(outcomes: dict[str, Outcome], files: Sequence[str]) -> None:
    """A program shows bugs in other files too: each finding goes to the file it stands in, if that is checked, once."""
    asked = {os.path.abspath(path): path for path in files}
    away: list[Finding] = []
    for path, outcome in outcomes.items():
        own = os.path.abspath(path)
        here = tuple(found for found in outcome.findings if os.path.abspath(split_cell(found.site.file)[0]) == own)
        away.extend(found for found in outcome.findings if found not in here)
        outcomes[path] = replace(outcome, findings=here)
    for finding in away:
        home = asked.get(os.path.abspath(finding.site.file))
        if home is not None:
            known = outcomes.get(home, Outcome(home))
            moved = replace(finding, site=replace(finding.site, file=home))
            places = {(found.code, found.site.line, found.site.column) for found in known.findings}
            if (moved.code, moved.site.line, moved.site.column) not in places:
                found = sorted((*known.findings, moved), key=lambda item: (item.site.line, item.site.column))
                outcomes[home] = replace(known, findings=tuple(found))


def _triage(path: str, cache: Cache | None) -> Work | Outcome | None:
    """What is to be done about a file: work, nothing (None), or an outcome that is known already."""
    try:
        size = os.stat(path).st_size
        note = reading.too_large(path, size)
        if note is not None:
            return Outcome(path, notes=(Note(path, note),))
        with open(path, "rb") as stream:
            data = stream.read()
    except OSError as error:
        return Outcome(path, failure=one.unreadable(path, error))
    if reading.WORD not in data:
        return None
    known = cache.get(path, digest(data)) if cache is not None else None
    return Work(path, size) if known is None else known


def _analyse(works: Sequence[Work], roots: Sequence[str], jobs: int | None) -> Iterator[tuple[Outcome, str]]:
    count = min(jobs or _cores(), len(works))
    if count < 2 or (jobs is None and sum(work.size for work in works) < SMALL):
        with _no_collections():
            project = _project(roots)
            for work in works:
                yield one.check_path(work.path, project)
    else:
        yield from _in_pool([work.path for work in works], roots, count)


def _cores() -> int:
    """The cores this process may use, which in a container are fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Syntax trees are many objects and no cycles; a project collects when it forgets some of them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _project(roots: Sequence[str]) -> Project:
    from outplace.source.project import Project

    return Project(roots)


_worker: Project | None = None
"""The project of a worker process: what it has parsed for one file serves the next."""


def _start(roots: Sequence[str]) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    gc.disable()  # as in `_no_collections`
    _worker = _project(roots)


def _check_all(paths: Sequence[str]) -> list[tuple[Outcome, str]]:
    assert _worker is not None
    return [one.check_path(path, _worker) for path in paths]


def _pool(roots: Sequence[str], count: int) -> ProcessPoolExecutor:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    import outplace.source.analysis  # noqa: F401  # once here, not once in each child

    # Children made by fork start with everything imported. No thread is running yet that a fork could harm.
    method = "fork" if sys.platform == "linux" else None
    return ProcessPoolExecutor(count, multiprocessing.get_context(method), _start, (list(roots),))


def _in_pool(paths: Sequence[str], roots: Sequence[str], count: int) -> Iterator[tuple[Outcome, str]]:
    from concurrent.futures import as_completed
    from concurrent.futures.process import BrokenProcessPool

    length = max(len(paths) // (count * PIECES), 1)
    pieces = [paths[start : start + length] for start in range(0, len(paths), length)]
    pool = _pool(roots, count)
    left = set(paths)
    try:
        for future in as_completed([pool.submit(_check_all, piece) for piece in pieces]):
            for outcome, own in future.result():
                left.discard(outcome.file)
                yield outcome, own
    except BrokenProcessPool:
        yield from _one_by_one([path for path in paths if path in left], roots)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _one_by_one(paths: Sequence[str], roots: Sequence[str]) -> Iterator[tuple[Outcome, str]]:
    """After a process has died: each file in a process that may die of it, so that it is known which one it was."""
    from concurrent.futures.process import BrokenProcessPool

    pool = _pool(roots, 1)
    try:
        for path in paths:
            try:
                yield pool.submit(_check_all, [path]).result()[0]
            except BrokenProcessPool:
                message = "internal error of outplace, please report it: Python died while it analysed this file"
                yield Outcome(path, failure=Failure(path, message, internal=True)), ""
                pool.shutdown(wait=False)
                pool = _pool(roots, 1)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
