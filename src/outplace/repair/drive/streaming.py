"""Shows what a program prints while it runs, and keeps it."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path
from typing import IO

_PATIENCE = 1.0
"""Seconds to wait for more after the program has ended. A child process of it may keep the pipe open."""


class Streaming:
    """Copies a program's stdout to our stdout and to a file."""

    def __init__(self, pipe: IO[bytes], file: Path) -> None:
        self._pipe, self._file = pipe, file
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Waits until everything is copied."""
        self._thread.join(_PATIENCE)

    def _copy(self) -> None:
        is_read = True
        with open(self._file, "wb", buffering=0) as kept:
            while data := os.read(self._pipe.fileno(), 65536):
                kept.write(data)
                try:
                    if is_read:
                        sys.stdout.buffer.write(data)
                        sys.stdout.buffer.flush()
                except (OSError, ValueError):  # our stdout was closed: the program must not wait for us
                    is_read = False


def show_lines_at_once() -> None:
    """In the program's process: hands each line on when it is complete, as in a terminal."""
    with contextlib.suppress(AttributeError, ValueError):
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
