"""Runs the program for a few steps, each time in a new process, with changed source in memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from outplace import settings
from outplace.reclaim.observe import digests, probe, recording
from outplace.reclaim.observe.trial import Trial
from outplace.repair.drive.processes import Started, Streaming
from outplace.repair.drive.runs import Telling


class Trials:
    """Starts the runs."""

    def __init__(self, words: Sequence[str], steps: int, limit: float, tell: Telling, exact: bool = False) -> None:
        self._words, self._steps, self._limit, self._tell = list(words), steps, limit, tell
        self._folder = tempfile.TemporaryDirectory(prefix="outplace-reclaim-")
        self.count = 0
        self.exact = exact
        """Are CUDA's algorithms to be those that give the same bits in every run?"""

    def close(self) -> None:
        """Deletes the temporary files."""
        self._folder.cleanup()

    def run(self, about: str, texts: Mapping[str, str] | None = None, ledger: bool = True) -> Trial:
        """Runs the program once. `about`: what for. If it is empty, what the program prints is shown as it comes."""
        self.count += 1
        folder = Path(self._folder.name, str(self.count))
        folder.mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        settings.RECLAIM.put(str(folder), environment)
        settings.STEPS.put(self._steps, environment)
        settings.LEDGER.put(ledger, environment)
        if self.exact:
            settings.EXACT.put(True, environment)
            environment["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        if texts:
            real = {os.path.realpath(path): text for path, text in texts.items()}
            (folder / "overlay.json").write_text(json.dumps(real), encoding="utf-8")
            settings.OVERLAY.put(str(folder / "overlay.json"), environment)
        command = [sys.executable, "-m", "outplace.cli.reclaim_child", *self._words]
        with self._tell(about):
            code, timed_out = self._wait(command, environment, folder, shown=not about)
        return Trial(
            code,
            timed_out,
            (folder / probe.STOPPED).exists(),
            (folder / "stdout").read_bytes(),
            (folder / "stderr").read_text(encoding="utf-8", errors="replace")[-4000:],
            recording.read(left) if (left := folder / probe.RECORDING).exists() else None,
            digests.read(left) if (left := folder / probe.DIGESTS).exists() else None,
        )

    def _wait(self, command: list[str], environment: dict[str, str], folder: Path, shown: bool) -> tuple[int, bool]:
        with open(folder / "stdout", "wb") as stdout, open(folder / "stderr", "wb") as stderr:
            hidden = {"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": stderr}
            streams: dict[str, Any] = {"stdout": subprocess.PIPE} if shown else hidden
            started = Started(command, environment, folder, shown, **streams)
            pipe = started.process.stdout
            streaming = Streaming(pipe, folder / "stdout") if pipe is not None else None
            try:
                code = started.wait(self._limit)
            finally:
                started.end()
                if streaming is not None:
                    streaming.finish()
        return code or 0, code is None
