"""Runs the program in a process of its own, shows its output line by line, and ends what it has started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from outplace import settings

_PATIENCE = 10.0
"""Seconds to wait until a process is gone. One that waits for a broken disk may not go at all."""
_PAUSE = 0.2
"""Seconds between two looks for processes that have lost their parents."""
_ROUNDS = 10
"""How often processes are looked for and killed: one may start another one at the same moment."""
_END_WITH_PARENT, _ADOPT_ORPHANS = 1, 36
"""Requests of Linux's `prctl`."""


class Stopped(BaseException):
    """A signal asks this process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Started:
    """A process of the program.

    `shown`: it is in our terminal and gets Ctrl-C, like every program. Others are in sessions of their own.
    """

    def __init__(
        self, command: list[str], environment: dict[str, str], folder: Path, shown: bool, **streams: Any
    ) -> None:
        """`folder` marks the process and its children, by a variable in their environment."""
        settings.PROOF.put(str(folder), environment)
        self._folder, self._shown = folder, shown
        _adopt_orphans()
        self._others = set(_children(_processes()))
        self.process = subprocess.Popen(command, env=environment, start_new_session=not shown, **streams)

    def wait(self, seconds: float | None) -> int | None:
        """Its exit code; None if it still runs after this time. If Ctrl-C or a signal ends us, it is ended, too."""
        ends_at = None if seconds is None else time.monotonic() + seconds
        try:
            while True:
                pause = _PAUSE if ends_at is None else max(0.0, min(_PAUSE, ends_at - time.monotonic()))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return self.process.wait(pause)
                self._reap()
                if ends_at is not None and time.monotonic() >= ends_at:
                    return None
        except (KeyboardInterrupt, Stopped) as error:
            if self._shown:
                self._leave_to_itself(error)
            raise

    def end(self) -> None:
        """Kills it, and all that it has started, also what has left its session."""
        if sys.platform == "win32":
            self._end_tree()
        else:
            if not self._shown:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.process.pid, signal.SIGKILL)
            for _ in range(_ROUNDS):
                found = list(self._family())
                for pid in found:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
                self._reap()
                if not found:
                    break
        self.end_alone()

    def end_alone(self) -> None:
        """Kills it if it still runs, and leaves what it has started."""
        if self.process.poll() is None:
            self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_PATIENCE)

    def _end_tree(self) -> None:
        if self.process.poll() is None:
            command = ["taskkill", "/F", "/T", "/PID", str(self.process.pid)]
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(command, capture_output=True, timeout=_PATIENCE, check=False)

    def _leave_to_itself(self, error: BaseException) -> None:
        """Gives the program time to end as it would without us. It has seen Ctrl-C, but not a signal that is for us."""
        try:
            if isinstance(error, Stopped):
                self.process.send_signal(error.number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_PATIENCE)
        finally:  # also if Ctrl-C is pressed again
            self.end_alone()

    def _family(self) -> Iterator[int]:
        """The processes that it has started, directly or not, and that still run (Linux)."""
        known = _processes()
        adopted = [pid for pid in _children(known) if pid not in self._others]
        waiting = [self.process.pid, *adopted, *(pid for pid in known if self._is_marked(pid))]
        found: set[int] = set()
        while waiting:
            pid = waiting.pop()
            if pid not in found:
                found.add(pid)
                waiting += [child for child, facts in known.items() if facts.parent == pid]
        return (pid for pid in found if pid in known and known[pid].runs)

    def _is_marked(self, pid: int) -> bool:
        with contextlib.suppress(OSError):
            return self._mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return False

    @property
    def _mark(self) -> bytes:
        return os.fsencode(f"{settings.PROOF.name}={self._folder}")

    def _reap(self) -> None:
        """Takes note of the end of processes that we have adopted. Else they would seem to be there still."""
        if not _has_ended_child():
            return
        for pid in _children(_processes()):
            if pid not in (self.process.pid, *self._others):
                with contextlib.suppress(OSError):
                    os.waitpid(pid, os.WNOHANG)


def _has_ended_child() -> bool:
    """Is there a child process that has ended and was not waited for?"""
    with contextlib.suppress(OSError, AttributeError):  # there are no children, or no such function (macOS, Windows)
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return False


class _Process(NamedTuple):
    parent: int
    runs: bool
    """Not ended, though its parent may not have asked about its end."""


def _processes() -> dict[int, _Process]:
    """All processes, where the system lists them (Linux)."""
    found: dict[int, _Process] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            found[int(folder.name)] = _Process(int(parent), state not in "ZX")
    return found


def _children(processes: dict[int, _Process]) -> Iterator[int]:
    own = os.getpid()
    return (pid for pid, facts in processes.items() if facts.parent == own)


def _adopt_orphans() -> None:
    """From now on a process of the program whose parent has ended is a child of ours, whatever it does (Linux)."""
    _ask_linux(_ADOPT_ORPHANS, 1)


def end_with_parent() -> None:
    """In the program's process: it is killed when the process that has started it is killed (Linux)."""
    _ask_linux(_END_WITH_PARENT, int(signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL))


def _ask_linux(request: int, value: int) -> None:
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(request, value, 0, 0, 0)


@contextlib.contextmanager
def until_signal() -> Iterator[None]:
    """A signal that would end this process raises `Stopped` in this block, and ends the process after it."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    handled = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]  # not under `nohup`

    def stop(number: int, _: object) -> None:
        raise Stopped(number)

    try:
        if threading.current_thread() is threading.main_thread():
            for number in handled:
                signal.signal(number, stop)
        yield
    except Stopped as stopped:
        signal.signal(stopped.number, signal.SIG_DFL)
        os.kill(os.getpid(), stopped.number)
    finally:
        for number in handled:
            if signal.getsignal(number) is stop:
                signal.signal(number, signal.SIG_DFL)


_COPIED = 1.0
"""Seconds to wait for more after the program has ended. A child process of it may keep the pipe open."""


class Streaming:
    """Copies a program's stdout to our stdout and to a file."""

    def __init__(self, pipe: IO[bytes], file: Path) -> None:
        self._pipe, self._file = pipe, file
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Waits until everything is copied."""
        self._thread.join(_COPIED)

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
