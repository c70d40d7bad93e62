"""The ranks of a distributed program: who this process is, where its ranks meet, and which of them speaks.

All ranks of a machine that have one launcher (`torchrun`) leave their reports in one folder. A bug that several of
them run into is shown by the first, with the ranks that have it; the others say one line. No rank ends before that is
done, since a launcher stops all ranks when one has failed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from outplace.model import Diagnosis

PATIENCE = 3.0
"""Seconds that a rank waits for the others to run into the same bug."""

_PAUSE = 0.02


def rank() -> int | None:
    """The number of this process among the ranks of its program; None where it is not one of several."""
    distributed = sys.modules.get("torch.distributed")
    with contextlib.suppress(Exception):  # a torch without distributed, one that is still being imported
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank()) if distributed.get_world_size() > 1 else None
    return int(os.environ["RANK"]) if launched() else None


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
    """The folder that all ranks with this launcher share. It is named after the launcher, which all of them know."""
    launcher = os.getppid()
    name = f"outplace-{launcher}-{_beginning(launcher)}-{os.environ.get('MASTER_PORT', '0')}"
    folder = os.path.join(tempfile.gettempdir(), name)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    found = os.lstat(folder)
    if hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & 0o077):  # somebody else's
        return tempfile.mkdtemp(prefix=f"outplace-{os.getpid()}-")
    return folder


def _beginning(process: int) -> str:
    """When a process began: numbers of processes are used again."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "0"


@contextlib.contextmanager
def telling(
    diagnoses: Sequence[Diagnosis], folder: str | None, known: Callable[[], dict[str, list[int]]]
) -> Iterator[list[Diagnosis]]:
    """Hands out those diagnoses that this process is to show; in the block they are shown.

    `known` says which bugs (by `essence`) have been found on which ranks by now.
    """
    mine = rank()
    if mine is None or folder is None or not diagnoses:
        yield list(diagnoses)
        return
    bugs = {essence(diagnosis): diagnosis for diagnosis in diagnoses}
    taken = [bug for bug in bugs if _take(os.path.join(folder, f"{bug}.taken"), mine)]
    if taken:
        _wait(lambda: all(len(known().get(bug, ())) >= here() for bug in taken), PATIENCE)
        ranks = known()
        yield [_with_ranks(bugs[bug], ranks.get(bug, [mine])) for bug in taken]
        for bug in taken:
            _take(os.path.join(folder, f"{bug}.told"), mine)
    else:
        yield []
    others = [bug for bug in bugs if bug not in taken]
    for bug in others:
        _wait(lambda bug=bug: os.path.exists(os.path.join(folder, f"{bug}.told")), 2 * PATIENCE)  # type: ignore[misc]
    if others and sys.stderr is not None:
        shower = _content(os.path.join(folder, f"{others[0]}.taken"))
        what = "the same in-place bug" if len(others) == 1 else f"the same {len(others)} in-place bugs"
        # In one piece, unlike what print does where the stream has no buffer.
        sys.stderr.write(f"outplace: rank {mine} has {what} as rank {shower}, where the lines are shown.\n")


def essence(diagnosis: Diagnosis) -> str:
    """What makes two diagnoses the same bug on several ranks, as a name for a file."""
    writers = [(change.site.file, change.site.line) for change in diagnosis.mutations if change.site]
    raised = diagnosis.raised_at and (diagnosis.raised_at.file, diagnosis.raised_at.line)
    return hashlib.sha256(repr((diagnosis.kind, writers, raised)).encode()).hexdigest()[:16]


def _take(path: str, owner: int) -> bool:
    """Only one process can be the first to make a file. Where the folder is gone each speaks for itself."""
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


def _wait(until: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        time.sleep(_PAUSE)


def _with_ranks(diagnosis: Diagnosis, ranks: Sequence[int]) -> Diagnosis:
    size = _number("WORLD_SIZE") or len(ranks)
    return replace(diagnosis, notes=(in_words(ranks, size), *diagnosis.notes))


def in_words(ranks: Sequence[int], size: int) -> str:
    """`On all 4 ranks.`, `On rank 2 of 4.`, `On ranks 0-2, 5 of 8.`"""
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
