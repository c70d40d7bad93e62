"""Kills a repair at some moment: every file must then be as it was, or wholly repaired."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

BUG = """import torch


def work(x):
    h = x.exp()
    h += 1
    return h.sum()


if __name__ == "__main__":
    work(torch.ones(3, requires_grad=True)).backward()
"""
MANY = {f"part{number}.py": BUG for number in range(20)}
"""For `outplace fix .`: many files, so that many moments fall into writing."""
PROGRAM = {
    "train.py": "import torch\n\nfrom part import work\n\nx = torch.ones(3, requires_grad=True)\nh = x.sigmoid()\n"
    "h *= 2\n(h.sum() + work(x)).backward()\n",
    "part.py": BUG,
}
"""For `outplace run --fix train.py`: two files to write."""


def lay_out(folder: Path, files: Mapping[str, str]) -> None:
    """Puts files into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def outplace(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """The command, in a process group of its own."""
    command = [sys.executable, "-m", "outplace", *words]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=folder, stdout=quiet, stderr=quiet, start_new_session=True)


def repaired(folder: Path, files: Mapping[str, str], *words: str) -> tuple[dict[str, str], float]:
    """What the command makes of the files when it is left alone, and how long that takes."""
    lay_out(folder, files)
    start = time.perf_counter()
    outplace(folder, *words).wait()
    return {name: (folder / name).read_text() for name in files}, time.perf_counter() - start


def half_written(
    folder: Path, files: Mapping[str, str], whole: Mapping[str, str], moment: float, *words: str
) -> list[str]:
    """Kills the command after so many seconds; the files that are neither as they were nor wholly repaired."""
    lay_out(folder, files)
    process = outplace(folder, *words)
    time.sleep(moment)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return [name for name, text in files.items() if (folder / name).read_text() not in (text, whole[name])]
