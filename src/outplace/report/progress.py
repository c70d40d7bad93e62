"""Says what a command is doing while it runs a program again and again."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO

from rich.cells import cell_len, set_cell_size

from outplace.report.console import for_stream

PAUSE = 0.5
"""Seconds between two updates of the line."""


class Progress:
    """In a terminal: one line on stderr that is updated and goes away. Elsewhere: a line for each run."""

    def __init__(self, stream: TextIO | None = None, limit: float | None = None) -> None:
        """`limit`: how many seconds all runs after the first may take together. It is said before the second."""
        self._limit = limit
        self._stream = stream or sys.stderr
        console = for_stream(self._stream)
        self._is_live = console.is_terminal and not console.is_dumb_terminal
        self._width = console.width
        self._runs = 0
        self._longest = 0.0

    @contextlib.contextmanager
    def run(self, about: str) -> Iterator[None]:
        """Tells about a run while it lasts. Says nothing of the first one if `about` is empty."""
        self._runs += 1
        if about and self._limit is not None:
            text = "outplace: trying repairs. The program runs again for each, for at most"
            self._write(f"{text} {_seconds(self._limit)} in all (--fix-timeout)\n")
            self._limit = None
        start = time.monotonic()
        shown = self._live(about, start) if self._is_live else self._plain(about)
        try:
            with shown if about else contextlib.nullcontext():
                yield
        finally:
            self._longest = max(self._longest, time.monotonic() - start)

    @contextlib.contextmanager
    def _plain(self, about: str) -> Iterator[None]:
        expected = f" (about {_seconds(self._longest)})" if self._longest >= 1 else ""
        print(f"outplace: run {self._runs}: {about}{expected}", file=self._stream, flush=True)
        yield

    @contextlib.contextmanager
    def _live(self, about: str, start: float) -> Iterator[None]:
        over = threading.Event()
        thread = threading.Thread(target=self._update, args=(about, start, over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self._write("\r\x1b[2K")

    def _update(self, about: str, start: float, over: threading.Event) -> None:
        while True:
            longest = f"; the longest so far: {_seconds(self._longest)}" if self._longest >= 1 else ""
            text = f"[run {self._runs}: {_seconds(time.monotonic() - start)}{longest}] {about}"
            self._write(f"\r\x1b[2K{_cut(text, self._width - 1)}")
            if over.wait(PAUSE):
                return

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a closed terminal is no reason to stop
            self._stream.write(text)
            self._stream.flush()


def _seconds(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{int(seconds)} s" if seconds < 100 else f"{minutes} min {rest} s" if rest else f"{minutes} min"


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else f"{set_cell_size(text, width - 1).rstrip()}…"
