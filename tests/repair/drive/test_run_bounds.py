"""`run --fix` ends within its time limit, whatever the program does."""

import contextlib
import sys
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


HARD_TO_END = """import os, signal, subprocess, sys, time
if not os.path.exists("ran"):
    open("ran", "w").close()
    sys.exit()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.setsid(); WAIT"
grandchild = child.replace("WAIT", "time.sleep(60)")
start = f"import subprocess, sys; other = subprocess.Popen([sys.executable, '-c', {grandchild!r}]); "
start += "open('pids', 'a').write(f'{os.getpid()} {other.pid} '); time.sleep(60)"
subprocess.Popen([sys.executable, "-c", child.replace("WAIT", start)])
while not os.path.exists("pids"):
    time.sleep(0.05)
END
"""


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells the environment of a process")
@pytest.mark.parametrize("end", ["time.sleep(60)", ""], ids=["it hangs", "it ends and leaves them behind"])
def test_nothing_of_a_proof_is_left_running(end, tmp_path, monkeypatch):
    """A child and a grandchild that ignore SIGTERM, each in a session of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hard.py").write_text(HARD_TO_END.replace("END", end))
    runs = Runs(["hard.py"], 20.0, tell)
    runs.first()
    evidence, _ = runs.again({}, "again")
    runs.close()
    assert evidence.stopped == bool(end)
    pids = (tmp_path / "pids").read_text().split()
    deadline = time.monotonic() + 5
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(pids) == 2 and not any(map(is_alive, pids))


def test_the_search_for_repairs_ends_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quick.py").write_text("")
    runs = Runs(["quick.py"], 0.1, tell)
    runs.first()
    runs.require_time()
    time.sleep(0.2)
    with pytest.raises(OutOfTime):
        runs.require_time()
    runs.close()
