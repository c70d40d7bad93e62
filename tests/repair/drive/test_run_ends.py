"""What the program of a repair has started ends with the run that started it, and all of it with `run --fix`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_run_bounds import is_alive

from outplace.repair.drive.processes import Started

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells who has started whom")

DETACHED = """import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    note = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    note += "open('pids', 'a').write(f'{os.getpid()} '); time.sleep(60)"
    os.execve(sys.executable, [sys.executable, "-S", "-c", note], {})
os.wait()
while not os.path.exists("pids"):
    pass
"""
"""A daemon: two forks, a session and an environment of its own. It holds our stdout, and ignores SIGTERM."""

BUG = """import torch
h = torch.ones(2, requires_grad=True).sigmoid()
h += 1
h.sum().backward()
"""
GOOD = BUG.replace("h += 1", "h = h + 1")


def of(folder: Path) -> list[str]:
    path = folder / "pids"
    return path.read_text().split() if path.exists() else []


def all_gone(pids: list[str]) -> bool:
    deadline = time.monotonic() + 10
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(map(is_alive, pids))


def heed_signals() -> None:
    """Started under `nohup`, the tests ignore SIGHUP, and so would every process that they start."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def fix(folder: Path, program: str) -> subprocess.Popen[str]:
    (folder / "train.py").write_text(program)
    command = [sys.executable, "-m", "outplace", "run", "--fix", "train.py"]
    environment = {**os.environ, "TMPDIR": str(folder)}  # what a killed process leaves there is deleted with it
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_signals,
    )


def test_a_daemon_of_any_run_is_ended(tmp_path):
    """Those of the first run, too: `communicate` waits until nobody holds the pipes."""
    messages = fix(tmp_path, DETACHED + BUG).communicate()[1]
    assert "Repaired train.py" in messages, messages
    assert len(of(tmp_path)) == 3
    assert all_gone(of(tmp_path))


def test_a_daemon_of_a_good_program_is_left_alone(tmp_path):
    process = fix(tmp_path, DETACHED + GOOD)
    assert process.wait() == 0
    (daemon,) = of(tmp_path)
    alive = is_alive(daemon)
    os.kill(int(daemon), signal.SIGKILL)
    assert alive
    assert "Nothing to repair" in process.communicate()[1]


WAITS_LATER = """import os, time
if os.path.exists("ran"):
    open("pids", "w").write(str(os.getpid()))
    time.sleep(60)
open("ran", "w").close()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_to_run_fix_ends_the_proof(number, tmp_path):
    process = fix(tmp_path, WAITS_LATER + BUG)
    while not of(tmp_path) and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(number)
    messages = process.communicate()[1]
    assert process.returncode == -number
    assert all_gone(of(tmp_path))
    if number != signal.SIGKILL:
        assert messages.endswith("outplace: stopped; nothing was changed\n")
    assert (tmp_path / "train.py").read_text() == WAITS_LATER + BUG


SAVES = """import signal, sys, time
def save(*_):
    time.sleep(0.5)
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGNAL, save)
print("begun", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_the_first_run_may_save_its_work(name, tmp_path):
    """A signal for `run --fix` is one for the program. Ctrl-C reaches both of them by itself."""
    process = fix(tmp_path, SAVES.replace("SIGNAL", name))
    assert process.stdout.readline() == "begun\n"
    if name == "SIGINT":
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for child in children:
            os.kill(int(child), signal.SIGINT)
    process.send_signal(getattr(signal, name))
    output, messages = process.communicate()
    assert output == "saved\n"
    assert process.returncode == (130 if name == "SIGINT" else -signal.SIGTERM)
    assert messages == "outplace: stopped; nothing was changed\n"


SHORT_LIVED = """import os
if os.fork() == 0:
    child = os.fork()
    if child:
        open("pids", "w").write(str(child))
        os._exit(0)
    os._exit(0)
os.wait()
child = int(open("pids").read())
while True:
    try:
        os.kill(child, 0)
    except ProcessLookupError:
        break
"""


@pytest.mark.parametrize("beside_another", [False, True])
def test_a_daemon_that_has_ended_is_gone_for_the_program(beside_another, tmp_path, monkeypatch):
    """Somebody asks about its end, as init does. Else this program would wait for ever.

    Another child of ours that has ended, and that nobody has asked about yet, is left alone.
    """
    monkeypatch.chdir(tmp_path)
    other = subprocess.Popen(["true"]) if beside_another else None
    started = Started([sys.executable, "-c", SHORT_LIVED], dict(os.environ), tmp_path, shown=True)
    code = started.wait(20)
    started.end()
    assert code == 0
    assert other is None or other.wait() == 0


def test_processes_that_are_not_of_the_run_are_left_alone(tmp_path):
    other = subprocess.Popen(["sleep", "60"])
    started = Started([sys.executable, "-c", DETACHED], dict(os.environ), tmp_path, shown=False, cwd=tmp_path)
    assert started.wait(20) == 0
    started.end()
    alive = other.poll() is None
    other.kill()
    other.wait()
    assert alive
    assert len(of(tmp_path)) == 1 and all_gone(of(tmp_path))
