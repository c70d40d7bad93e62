"""`run --fix` ends within its time limit, whatever the program does."""

import contextlib
import time

import pytest

from outplace.repair.drive.runs import Runs
from outplace.source.project import OutOfTime

SLOW_LATER = """import os, time
if os.path.exists("ran"):
    time.sleep(60)
open("ran", "w").close()
"""


@contextlib.contextmanager
def tell(about):
    yield


def test_all_runs_after_the_first_share_the_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.py").write_text(SLOW_LATER)
    runs = Runs(["slow.py"], 6.0, tell)
    evidence, _ = runs.first()
    assert (evidence.code, evidence.stopped) == (0, False)
    start = time.monotonic()
    count = 0
    with pytest.raises(OutOfTime):
        while True:
            evidence, _ = runs.again({}, "again")
            assert evidence.stopped
            count += 1
    runs.close()
    assert 1 <= count <= 8
    assert time.monotonic() - start < 6 + 5  # and what it takes to end a process
