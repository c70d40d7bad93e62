"""The process that runs the programs, one for each test worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Run:
    report: dict[str, Any]
    output: str
    status: int
    seconds: float


class Zygote:
    """Starts programs quickly; see zygote.py."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "zygote.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Its children end without clearing up; what they leave would be looked through by every later run.
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(scratch)},
        )

    def run(self, folder: Path, *program: str) -> Run:
        report, output = self._scratch / "report.json", self._scratch / "output.txt"
        arguments = ["run", "--json", str(report), *program]
        report.unlink(missing_ok=True)
        began = time.monotonic()
        status = self._ask({"arguments": arguments, "folder": str(folder), "output": str(output)})
        return Run(json.loads(report.read_text()), output.read_text(), status, time.monotonic() - began)

    def _ask(self, request: dict[str, Any]) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)


@pytest.fixture(scope="session")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    started = Zygote(tmp_path_factory.mktemp("zygote"))
    yield started
    started.close()
