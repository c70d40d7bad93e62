"""Tries an installed outplace without torch: the version, a finding, a repair, and that all data files are there."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """\
import torch

x = torch.zeros(3, requires_grad=True)
y = x.exp()
z = y.sum()
y += 1
z.backward()
"""


def outplace(*arguments: str, expected: int, folder: str) -> str:
    """The output of a command, which must end with the expected exit code."""
    command = [sys.executable, "-m", "outplace", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8")
    if done.returncode != expected:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}, not {expected}:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(PROGRAM, encoding="utf-8")
        version = outplace("--version", expected=0, folder=folder)
        found = outplace("check", "train.py", expected=1, folder=folder)
        page = outplace("explain", "OUT201", expected=0, folder=folder)
        outplace("fix", "train.py", expected=0, folder=folder)
        clean = outplace("check", "train.py", expected=0, folder=folder)
        repaired = Path(folder, "train.py").read_text("utf-8")
        program = "from outplace.report import html; html.fragment([])"
        subprocess.run([sys.executable, "-c", program], check=True)
    assert "OUT201" in found and "Most derivatives" in page and "OUT201" not in clean, (found, page, clean)
    assert "y = y + 1" in repaired, repaired
    print(f"{version.strip()} works")


if __name__ == "__main__":
    main()
