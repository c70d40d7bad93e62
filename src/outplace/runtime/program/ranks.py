"""The ranks of a distributed program: the number of this process, the folder they share, and which rank reports.

All ranks of one launcher (`torchrun`) on a machine leave their reports in one folder. If several ranks run into a bug,
the first one shows it, with the list of ranks; the others print one line. No rank ends before that, because a launcher
stops all ranks when one has failed.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from outplace.files.writing import replace_text
from outplace.model import Diagnosis

PATIENCE = 3.0
"""Seconds of its own processor time that another rank may take to run into the same bug."""

QUIET = 0.5
"""If all ranks have slept for this many seconds, they wait for the failed rank and will not continue."""

_MOST = 120.0
_PAUSE = 0.05


def rank() -> int | None:
    """The number of this process among the ranks of its program; None if it is not one of several."""
    known = _in_group()
    if known is not None:
        return known[0] if known[1] > 1 else None
    return int(os.environ["RANK"]) if launched() else None


def _in_group() -> tuple[int, int] | None:
    """The number of this process and the number of processes, once there is a process group."""
    distributed = sys.modules.get("torch.distributed")
    with contextlib.suppress(Exception):  # a torch without distributed, or one that is still being imported
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank()), int(distributed.get_world_size())
    return None


def launched() -> bool:
    """Was this process started as one rank of several?"""
    return _number("RANK") is not None and (_number("WORLD_SIZE") or 0) > 1


def here() -> int:
    """How many ranks run on this machine."""
    return _number("LOCAL_WORLD_SIZE") or _number("WORLD_SIZE") or 1


def _number(variable: str) -> int | None:
    text = os.environ.get(variable, "")
    return int(text) if text.isdigit() else None


def meeting_place() -> str:
    """The folder that all ranks of this launcher share. It is named after the launcher, which all of them know."""
    launcher = os.getppid()
    name = f"outplace-{launcher}-{_beginning(launcher)}-{os.environ.get('MASTER_PORT', '0')}"
    folder = os.path.join(tempfile.gettempdir(), name)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    found = os.lstat(folder)
    if hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & 0o077):  # it belongs to another user
        return tempfile.mkdtemp(prefix=f"outplace-{os.getpid()}-")
    return folder


def _beginning(process: int) -> str:
    """When a process began. Process numbers are reused."""
    return next(iter(_facts(f"/proc/{process}/stat")[19:]), "0")


def _facts(path: str) -> list[str]:
    """What Linux says about a process or thread, from its state on; empty if it is gone, or not on Linux."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def join(folder: str) -> None:
    """Makes this process known to the other ranks. Its children have the same rank number, but do not join."""
    number = os.environ["RANK"]
    first = _Process(folder, number)
    if first.seconds is None or first.is_gone:
        with contextlib.suppress(OSError):
            replace_text(Path(folder, f"{number}.rank"), str(os.getpid()))


@contextlib.contextmanager
def diagnoses_to_show(
    diagnoses: Sequence[Diagnosis], folder: str | None, known: Callable[[], dict[str, list[int]]]
) -> Iterator[list[Diagnosis]]:
    """Gives the diagnoses that this process has to show; they are shown inside the block.

    `known` says on which ranks each bug (by `bug_id`) has been found so far.
    """
    mine = rank()
    if mine is None or folder is None or not diagnoses:
        yield list(diagnoses)
        return
    bugs = {bug_id(diagnosis): diagnosis for diagnosis in diagnoses}
    taken = [bug for bug in bugs if _take(os.path.join(folder, f"{bug}.taken"), mine)]
    if taken:
        others = _Others(folder)
        _wait(lambda: not launched() or all(others.will_not_come(known().get(bug, ())) for bug in taken))
        ranks = known()
        yield [_with_ranks(bugs[bug], ranks.get(bug, [mine])) for bug in taken]
        for bug in taken:
            _take(os.path.join(folder, f"{bug}.told"), mine)
    else:
        yield []
    elsewhere = [bug for bug in bugs if bug not in taken]
    for bug in elsewhere:
        _wait(partial(_is_told, folder, bug))
    if elsewhere and sys.stderr is not None:
        shower = _content(os.path.join(folder, f"{elsewhere[0]}.taken"))
        what = "the same in-place bug" if len(elsewhere) == 1 else f"the same {len(elsewhere)} in-place bugs"
        # In one write; print makes several where the stream has no buffer.
        sys.stderr.write(f"outplace: rank {mine} has {what} as rank {shower}, where the lines are shown.\n")


def bug_id(diagnosis: Diagnosis) -> str:
    """What identifies the same bug on several ranks, as a file name."""
    writers = [(change.site.file, change.site.line) for change in diagnosis.mutations if change.site]
    raised = diagnosis.raised_at and (diagnosis.raised_at.file, diagnosis.raised_at.line)
    return hashlib.sha256(repr((diagnosis.kind, writers, raised)).encode()).hexdigest()[:16]


def _take(path: str, owner: int) -> bool:
    """Makes a file, which only one process can do first. If the folder is gone, each process reports for itself."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(str(owner))
    except FileExistsError:
        return False
    except OSError:
        return True
    return True


def _content(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return "?"


def _is_told(folder: str, bug: str) -> bool:
    """Has the rank that took this bug shown it, or can it no longer do so?"""
    teller = _content(os.path.join(folder, f"{bug}.taken"))
    return os.path.exists(os.path.join(folder, f"{bug}.told")) or _Process(folder, teller).is_gone


def _wait(until: Callable[[], bool]) -> None:
    end = time.monotonic() + (_MOST if launched() else PATIENCE)  # less is known of ranks without a launcher
    while not until() and time.monotonic() < end:
        time.sleep(_PAUSE)


class _Others:
    """The ranks of this machine that have not run into a bug, and whether they still may.

    Their processor time counts, not the time on the clock, so ranks on a busy machine are not given up too early. Ranks
    that only wait for a failed rank are recognised soon.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._began = self._last_busy = time.monotonic()
        self._spent: dict[int, float] = {}

    def will_not_come(self, there: Sequence[int]) -> bool:
        """Is there no rank to wait for, apart from those that have the bug already?"""
        local = _number("LOCAL_RANK")
        first = 0 if local is None else (_number("RANK") or 0) - local
        ranks = {number: _Process(self._folder, str(number)) for number in range(first, first + here())}
        missing = {number: one for number, one in ranks.items() if number not in there and not one.is_gone}
        now = time.monotonic()
        if any(self._is_busy(number, process, now) for number, process in missing.items()):
            self._last_busy = now
        return not missing or now - self._last_busy >= QUIET

    def _is_busy(self, number: int, process: _Process, now: float) -> bool:
        if process.seconds is None:  # it has not begun, or this is not Linux
            return now - self._began < PATIENCE
        return process.is_awake and process.seconds - self._spent.setdefault(number, process.seconds) < PATIENCE


class _Process:
    """The state of another rank's process."""

    def __init__(self, folder: str, number: str) -> None:
        self._id = _content(os.path.join(folder, f"{number}.rank"))
        self._facts = _facts(f"/proc/{self._id}/stat")

    @property
    def is_gone(self) -> bool:
        """Has it ended?"""
        return self._id.isdigit() and os.path.isdir("/proc/self") and (not self._facts or self._facts[0] in "ZX")

    @property
    def seconds(self) -> float | None:
        """The processor time it has used, if known."""
        return sum(map(int, self._facts[11:13])) / os.sysconf("SC_CLK_TCK") if self._facts else None

    @property
    def is_awake(self) -> bool:
        """Is one of its threads running or ready to run?"""
        return any(_facts(path)[:1] in (["R"], ["D"]) for path in glob.glob(f"/proc/{self._id}/task/*/stat"))


def _with_ranks(diagnosis: Diagnosis, ranks: Sequence[int]) -> Diagnosis:
    group = _in_group()
    size = group[1] if group else _number("WORLD_SIZE") or len(ranks)
    return replace(diagnosis, notes=(in_words(ranks, size), *diagnosis.notes))


def in_words(ranks: Sequence[int], size: int) -> str:
    """The ranks in words: `On all 4 ranks.`, `On rank 2 of 4.`, `On ranks 0-2, 5 of 8.`"""
    if len(ranks) == size:
        return f"On all {size} ranks."
    if len(ranks) == 1:
        return f"On rank {ranks[0]} of {size}."
    return f"On ranks {_ranges(ranks)} of {size}."


def _ranges(ranks: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in sorted(ranks):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
