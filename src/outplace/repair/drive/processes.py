"""Starts the program for a proof, shows its output line by line, and ends it with everything that it has started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from outplace import settings

_PATIENCE = 10.0
"""Seconds to wait until a killed process is gone. One that waits for a broken disk may not go at all."""


def start(command: list[str], environment: dict[str, str], folder: Path, **streams: Any) -> subprocess.Popen[bytes]:
    """Starts a process so that `end` can reach its children: in a session of its own, with this folder as a mark."""
    settings.PROOF.put(str(folder), environment)
    return subprocess.Popen(command, env=environment, start_new_session=True, **streams)


def end(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Kills a process that `start` has started with this folder, and all that it has started."""
    if sys.platform == "win32":
        if process.poll() is None:
            command = ["taskkill", "/F", "/T", "/PID", str(process.pid)]
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(command, capture_output=True, timeout=_PATIENCE, check=False)
            process.kill()
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        for pid in _marked(folder):  # those that have left the session
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_PATIENCE)


def _marked(folder: Path) -> Iterator[int]:
    """The processes with this folder as their mark, where the system tells (Linux)."""
    mark = os.fsencode(f"{settings.PROOF.name}={folder}")
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                yield int(process.name)


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
