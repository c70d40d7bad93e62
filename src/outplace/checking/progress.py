"""A progress bar for long work in a terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from outplace.checking.runner import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

PATIENCE = 0.7
"""Seconds before the bar appears. Most runs are over by then."""
PAUSE = 0.1


@contextlib.contextmanager
def bar(quiet: bool) -> Iterator[Progress | None]:
    """The function to report progress to; None if stderr is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    late = _LateBar()
    try:
        yield late.tell
    finally:
        late.stop()


class _LateBar:
    """A bar that appears late. It has no thread, because a thread would be copied into the worker processes."""

    def __init__(self) -> None:
        self._bar: Bar | None = None
        self._next = time.monotonic() + PATIENCE

    def tell(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + PAUSE
        if self._bar is None:
            self._bar = _start(total)
        self._bar.update(self._bar.task_ids[0], completed=done)
        self._bar.refresh()

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()


def _start(total: int) -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("Checking"), BarColumn(), MofNCompleteColumn(), TextColumn("files"), TimeRemainingColumn())
    bar = Bar(*columns, console=Console(file=sys.stderr), auto_refresh=False, transient=True)
    bar.add_task("", total=total)
    bar.start()
    return bar
