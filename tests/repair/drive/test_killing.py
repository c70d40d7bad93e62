"""A repair that is killed leaves no file half-written. `benchmarks/kill_fix.py` kills at more moments."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from killing import BUG, MANY, half_written, lay_out, repaired

from outplace.repair.syntax import files
from outplace.repair.syntax.files import write_all


def test_fix_is_killed(tmp_path):
    whole, seconds = repaired(tmp_path / "whole", MANY, "fix", ".")
    assert all(whole[name] != MANY[name] for name in MANY)
    choose = random.Random(0)
    for number in range(8):
        folder = tmp_path / str(number)
        assert half_written(folder, MANY, whole, choose.random() * seconds, "fix", ".") == []


def test_the_writing_of_run_fix_is_killed(tmp_path):
    """All that `run --fix` ever writes is written by this one function, again and again until it is killed."""
    lay_out(tmp_path, MANY)
    paths = [str(tmp_path / name) for name in MANY]
    old, new = BUG.encode(), BUG.replace("h += 1", "h = h + 1" * 50).encode()
    choose = random.Random(1)
    for _ in range(20):
        child = os.fork()
        if child == 0:
            while True:
                now = {path: files.read(path) for path in paths}
                write_all({path: new if one.data == old else old for path, one in now.items()}, now)
        time.sleep(choose.random() / 50)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert {Path(path).read_bytes() for path in paths} <= {old, new}
