"""Starts programs in forks of one process that has torch and outplace loaded: a start costs a tenth of a second."""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Run:
    report: dict[str, Any]
    output: str
    status: int
    seconds: float


class Zygote:
    """Starts programs quickly; see fork_server.py."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "fork_server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Its children end without clearing up; what they leave would be looked through by every later run.
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(scratch)},
        )

    def run(self, folder: Path, *program: str) -> Run:
        """`outplace run`, and its report."""
        report = self._scratch / "report.json"
        report.unlink(missing_ok=True)
        began = time.monotonic()
        done = self.python(folder, "-m", "outplace", "run", "--json", str(report), *program, stderr=subprocess.STDOUT)
        seconds = time.monotonic() - began
        output = done.stdout.replace(f"outplace: wrote {report}\n", "")
        return Run(json.loads(report.read_text()), output, done.returncode, seconds)

    def python(
        self, folder: Path, *words: str, stderr: int = subprocess.PIPE, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """`python WORDS`, where the words are those of a program or of outplace, with these variables added."""
        assert self._process.stdin is not None and self._process.stdout is not None
        out, error = self._scratch / "stdout", self._scratch / "stderr"
        for path in (out, error):
            path.write_bytes(b"")
        streams = {"stdout": str(out), "stderr": str(out if stderr == subprocess.STDOUT else error)}
        request = {"words": words, "folder": str(folder), "environment": environment, **streams}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        return subprocess.CompletedProcess([sys.executable, *words], status, out.read_text(), error.read_text())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)


@functools.cache
def shared() -> Zygote:
    """The one of this test process."""
    scratch = tempfile.TemporaryDirectory(prefix="outplace-tests-")
    started = Zygote(Path(scratch.name))
    atexit.register(scratch.cleanup)
    atexit.register(started.close)
    return started


def python(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python WORDS`, where the words are those of a program or of outplace. Standard input is empty."""
    return shared().python(folder, *words, **environment)
