"""Windows and macOS, as far as they can be tried elsewhere: paths, drives, processes that are spawned."""

from __future__ import annotations

import ntpath
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from outplace.checking import again, baseline
from outplace.checking.config import common_folder
from outplace.checking.discovery import Excluded, is_excluded
from outplace.files import naming
from outplace.model import Finding, Site
from outplace.repair.syntax.edits import unified_diff
from outplace.report.findings import places


@pytest.fixture
def windows(monkeypatch):
    """Paths as on Windows, in the folder C:\\work."""
    with monkeypatch.context() as patched:
        patched.setattr(os, "path", ntpath)
        patched.setattr(os, "sep", "\\")
        patched.setattr(os, "getcwd", lambda: "C:\\work")
        yield


def finding(file: str) -> Finding:
    return Finding("saved", "OUT201", "error", Site(file, 3, 3, 0, 6, "<module>", "y += 1"), "a message")


def test_names_of_files_on_windows(windows):
    assert naming.under_cwd("C:\\work\\src\\train.py") == "src\\train.py"
    assert naming.under_cwd("C:\\other\\train.py") == "C:\\other\\train.py"
    assert naming.under_cwd("D:\\train.py") == "D:\\train.py"  # another drive
    assert not naming.is_inside("D:\\work\\train.py", "C:\\work")
    assert not naming.is_inside("C:\\work2\\train.py", "C:\\work")


def test_tools_get_slashes(windows):
    """A patch, SARIF and a baseline are read on other systems, too."""
    diff = unified_diff("src\\train.py", "a\n", "b\n")
    assert diff.startswith("--- a/src/train.py\n+++ b/src/train.py\n")
    assert places.in_repository("C:\\work\\src\\train.py") == "src/train.py"
    assert places.in_repository("D:\\train.py") == "D:\\train.py"
    assert baseline._key(finding("C:\\work\\src\\train.py"), "C:\\work\\baseline.json")[0] == "src/train.py"
    assert baseline._key(finding("D:\\train.py"), "C:\\work\\baseline.json")[0] == "D:/train.py"


def test_a_file_on_another_drive_is_checked(windows):
    assert common_folder(["C:\\a", "D:\\b"]) == "C:\\work"
    assert not is_excluded("D:\\train.py", "C:\\work", Excluded(frozenset({"build"}), ()))
    assert is_excluded("D:\\build\\train.py", "C:\\work", Excluded(frozenset({"build"}), ()))
    assert again.importers("D:\\gone\\train.py", SimpleNamespace(root="C:\\work")) == {}


def test_a_file_with_the_line_ends_of_windows_keeps_them(tmp_path: Path):
    program = tmp_path / "bug.py"
    text = "import torch\nx = torch.zeros(3, requires_grad=True)\ny = x.exp()\ny += 1\ny.sum().backward()\n"
    program.write_bytes(text.replace("\n", "\r\n").encode())
    subprocess.run([sys.executable, "-m", "outplace", "fix", "bug.py"], cwd=tmp_path, check=True, capture_output=True)
    assert program.read_bytes() == text.replace("y += 1", "y = y + 1").replace("\n", "\r\n").encode()


SPAWNED = """
import multiprocessing, sys

def fail(number):
    import torch
    w = torch.ones(3, requires_grad=True)
    y = w.exp()
    y += number
    y.sum().backward()

if __name__ == "__main__":
    worker = multiprocessing.get_context("spawn").Process(target=fail, args=(1,))
    worker.start()
    worker.join()
    sys.exit(worker.exitcode)
"""


def test_a_spawned_process_is_diagnosed_where_there_is_no_fork(tmp_path: Path):
    """On Windows and macOS every worker is spawned: it starts anew, and gets outplace from the environment."""
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(textwrap.dedent(SPAWNED))
    start = (
        "import os, sys\n"
        "for name in ('fork', 'register_at_fork'):\n    delattr(os, name)\n"
        "sys.modules['fcntl'] = None\n"
        "from outplace.cli.main import main\n"
        "sys.exit(main(['run', 'train.py']))\n"
    )
    done = subprocess.run([sys.executable, "-c", start], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("OUT201 saved: y (float32[3]) was overwritten") == 1, done.stderr
    assert "8 - y += number" in done.stderr
