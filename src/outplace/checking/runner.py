"""Checks many files: unchanged files come from the cache, the others are analysed on all cores."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from outplace.checking import file_check
from outplace.checking.cache import Cache, digest
from outplace.checking.notebook import split_cell
from outplace.checking.outcome import Failure, Note, Outcome
from outplace.files import reading

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from outplace.model import Finding
    from outplace.source.project import Project

SMALL = 400_000
"""Bytes. Less than this is analysed before a pool of processes has started."""
PIECES = 8
"""Pieces of work for each process. More would balance the load better, but parse shared files more often."""

Progress = Callable[[int, int], None]
"""Is called with the number of finished files and the number of all files."""


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
    fixes: bool = True,
) -> list[Outcome]:
    """The outcomes in the order of the files. Files with nothing to analyse have none.

    `fixes`: add a fix to each finding. That can take longer than all the rest.
    """
    outcomes: dict[str, Outcome] = {}
    works: list[Work] = []
    for path in files:
        triaged = _cached_or_work(path, cache, fixes)
        if isinstance(triaged, Work):
            works.append(triaged)
        elif triaged is not None:
            outcomes[path] = triaged
    done = len(files) - len(works)
    for outcome, content_digest in _analyse(works, roots, jobs, fixes):
        outcomes[outcome.file] = outcome
        if cache is not None and content_digest:
            cache.put(content_digest, outcome, fixes)
        done += 1
        if progress is not None:
            progress(done, len(files))
    _move_to_own_files(outcomes, files)
    return [outcomes[path] for path in files if path in outcomes]


def _move_to_own_files(outcomes: dict[str, Outcome], files: Sequence[str]) -> None:
    """A program may show bugs in other files. Moves each finding to its own file, if that file is checked, once."""
    checked_files = {os.path.abspath(path): path for path in files}
    elsewhere: list[Finding] = []
    for path, outcome in outcomes.items():
        this_file = os.path.abspath(path)
        is_here = [os.path.abspath(split_cell(item.site.file)[0]) == this_file for item in outcome.findings]
        elsewhere.extend(item for item, here in zip(outcome.findings, is_here, strict=True) if not here)
        outcomes[path] = replace(outcome, findings=tuple(itertools.compress(outcome.findings, is_here)))
    for finding in elsewhere:
        home = checked_files.get(os.path.abspath(finding.site.file))
        if home is not None:
            outcome_there = outcomes.get(home, Outcome(home))
            moved = replace(finding, site=replace(finding.site, file=home))
            same = [item for item in outcome_there.findings if _place(item) == _place(moved)]
            if not same or (moved.severity == "error" and all(item.severity != "error" for item in same)):
                others = (item for item in outcome_there.findings if item not in same)
                findings = sorted((*others, moved), key=lambda item: (item.site.line, item.site.column))
                outcomes[home] = replace(outcome_there, findings=tuple(findings))


def _place(finding: Finding) -> tuple[str, int, int]:
    return finding.code, finding.site.line, finding.site.column


def _cached_or_work(path: str, cache: Cache | None, fixes: bool) -> Work | Outcome | None:
    """The outcome of a file from the cache, or the work to do; None if there is nothing to analyse."""
    try:
        size = os.stat(path).st_size
        note = reading.too_large(path, size)
        if note is not None:
            return Outcome(path, notes=(Note(path, note, None, True),))
        with open(path, "rb") as stream:
            data = stream.read()
    except OSError as error:
        return Outcome(path, failure=file_check.unreadable(path, error))
    if reading.TORCH not in data:
        return None
    cached = cache.get(path, digest(data), fixes) if cache is not None else None
    return Work(path, size) if cached is None else cached


def _analyse(
    works: Sequence[Work], roots: Sequence[str], jobs: int | None, fixes: bool
) -> Iterator[tuple[Outcome, str]]:
    count = min(jobs or _cores(), len(works))
    if count < 2 or (jobs is None and sum(work.size for work in works) < SMALL):
        with _no_collections():
            project = _project(roots)
            for work in works:
                yield file_check.check_path(work.path, project, fixes)
    else:
        yield from _in_pool([work.path for work in works], roots, count, fixes)


def _cores() -> int:
    """The number of cores that this process may use. In a container that may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """No garbage collection: syntax trees are many objects without cycles. A project collects when it drops some."""
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
"""The project of a worker process. It keeps the parsed files for the next file."""


def _start(roots: Sequence[str]) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    gc.disable()  # as in `_no_collections`
    _worker = _project(roots)


def _check_all(paths: Sequence[str], fixes: bool) -> list[tuple[Outcome, str]]:
    assert _worker is not None
    return [file_check.check_path(path, _worker, fixes) for path in paths]


def _pool(roots: Sequence[str], count: int) -> ProcessPoolExecutor:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    import outplace.source.analysis  # noqa: F401  # import it once here, not in each child

    # Children made by fork start with everything imported. No thread is running yet that a fork could harm.
    method = "fork" if sys.platform == "linux" else None
    return ProcessPoolExecutor(count, multiprocessing.get_context(method), _start, (list(roots),))


def _in_pool(paths: Sequence[str], roots: Sequence[str], count: int, fixes: bool) -> Iterator[tuple[Outcome, str]]:
    from concurrent.futures import as_completed
    from concurrent.futures.process import BrokenProcessPool

    length = max(len(paths) // (count * PIECES), 1)
    pieces = [paths[start : start + length] for start in range(0, len(paths), length)]
    pool = _pool(roots, count)
    unfinished = set(paths)
    try:
        for future in as_completed([pool.submit(_check_all, piece, fixes) for piece in pieces]):
            for outcome, content_digest in future.result():
                unfinished.discard(outcome.file)
                yield outcome, content_digest
    except BrokenProcessPool:
        yield from _one_by_one([path for path in paths if path in unfinished], roots, fixes)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _one_by_one(paths: Sequence[str], roots: Sequence[str], fixes: bool) -> Iterator[tuple[Outcome, str]]:
    """After a process has died: analyses each file in a process of its own, to see which file was the cause."""
    from concurrent.futures.process import BrokenProcessPool

    pool = _pool(roots, 1)
    try:
        for path in paths:
            try:
                yield pool.submit(_check_all, [path], fixes).result()[0]
            except BrokenProcessPool:
                message = "internal error of outplace, please report it: Python died while it analysed this file"
                yield Outcome(path, failure=Failure(path, message, internal=True)), ""
                pool.shutdown(wait=False)
                pool = _pool(roots, 1)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
