"""`outplace run --fix`: the files are repaired, and the proof is there, or they stay as they are."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import forks
from outplace.cli.main import main
from outplace.errors import OutplaceError
from outplace.repair.drive import from_run
from outplace.repair.syntax import files
from outplace.repair.syntax.files import write_all

BUG = """import torch

torch.manual_seed(0)
net = torch.nn.Linear(3, 3)
h = net(torch.ones(2, 3)).sigmoid()
h += 1
loss = h.sum()
loss.backward()
print("RESULT", round(loss.item(), 4))
"""
FIXED = BUG.replace("h += 1", "h = h + 1")


def run(*args, cwd):
    return forks.python(cwd, "-m", "outplace", "run", *args)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(BUG)
    return path


UNSEEDED = """import random

import numpy as np
import torch

order = list({"a", "b", "c", "d", "e", "f", "g", "h"})
drawn = [random.random(), np.random.rand(), np.random.default_rng().random(), torch.rand(()).item(), order.index("a")]
net = torch.nn.Linear(5, 3)
h = net(torch.tensor(drawn, dtype=torch.float32)).sigmoid()
h += 1
h.sum().backward()
print("RESULT", drawn)
"""


def test_repaired_and_proved(tmp_path):
    """The other tests have forks; here is each process one of its own, and the program seeds nothing."""
    file = tmp_path / "train.py"
    file.write_text(UNSEEDED)
    command = [sys.executable, "-m", "outplace", "run", "--fix", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert file.read_text() == UNSEEDED.replace("h += 1", "h = h + 1")
    assert done.returncode == 0
    assert done.stdout.startswith("RESULT ") and done.stdout.count("RESULT") == 1
    assert "-h += 1\n+h = h + 1\n" in done.stderr
    assert "loss: unchanged, in 1 backward" in done.stderr
    assert "gradients: equal to the original program" in done.stderr
    assert "Repaired train.py" in done.stderr


OPERATOR = """import torch


@torch.library.custom_op("outplace_tests::scale_", mutates_args={"x"})
def scale_(x: torch.Tensor, k: float) -> None:
    x.mul_(k)


w = torch.ones(3, requires_grad=True)
y = w.exp()
z = y + 1
CALL(y, 3.0)
z.sum().backward()
print("RESULT", round(w.grad.sum().item(), 3), round(y.sum().item(), 3))
"""


@pytest.mark.parametrize("call", ["scale_", "torch.ops.outplace_tests.scale_"])
def test_the_body_of_an_operator_is_not_rewritten(call, tmp_path):
    """All calls share the body. The operator has no twin without the underscore."""
    file = tmp_path / "train.py"
    file.write_text(OPERATOR.replace("CALL", call))
    done = run("--fix", "train.py", cwd=tmp_path)
    before, after = OPERATOR.split("w = ")[0], file.read_text()
    assert done.returncode == 0 and "Repaired train.py" in done.stderr
    assert after.startswith(before) and f"\n{call}(y, 3.0)\n" in after
    fixed = forks.python(tmp_path, "train.py")
    assert fixed.stdout.split() == ["RESULT", "8.155", "24.465"]


def test_diff_writes_nothing(file, tmp_path):
    done = run("--diff", "train.py", cwd=tmp_path)
    assert file.read_text() == BUG
    assert "+h = h + 1" in done.stderr
    assert "nothing was written" in done.stderr


def test_two_bugs_in_a_row(file, tmp_path):
    second = "\nw = torch.ones(3, requires_grad=True)\n(w * w).sum().backward()\nw -= w.grad\nprint('END')\n"
    file.write_text(BUG + second)
    done = run("--fix", "train.py", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.endswith("END\n")
    assert file.read_text() == FIXED + second.replace("w -= w.grad", "with torch.no_grad():\n    w -= w.grad")


OPS = """import torch


def bump(x):
    y = x.exp()
    y *= 2
    return y
"""
MAIN = """import torch

import ops

x = torch.ones(3, requires_grad=True)
ops.bump(x).sum().backward()
"""


def test_the_bug_lies_in_another_file(file, tmp_path):
    (tmp_path / "ops.py").write_text(OPS)
    file.write_text(MAIN)
    done = run("--fix", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ops.py").read_text() == OPS.replace("y *= 2", "y = y * 2")
    assert file.read_text() == MAIN


STEPPED = """import torch

w = torch.ones(2, requires_grad=True)
opt = torch.optim.SGD([w], lr=0.1)
loss = w.square().sum()
loss.backward(retain_graph=True)
opt.step()
print("STEP")
loss.backward()
"""


def test_what_it_cannot_do_it_leaves(file, tmp_path):
    file.write_text(STEPPED)
    done = run("--fix", "train.py", cwd=tmp_path)
    assert file.read_text() == STEPPED
    assert (done.returncode, done.stdout) == (1, "STEP\n")
    assert "Not repaired" in done.stderr and "Nothing was written." in done.stderr


CARRIED = """import torch

torch.manual_seed(0)
cell = torch.nn.GRUCell(3, 3)
opt = torch.optim.SGD(cell.parameters(), lr=0.1)
h = torch.zeros(1, 3)
for _ in range(4):
    h = cell(torch.ones(1, 3), h)
    loss = h.sum()
    opt.zero_grad()
    loss.backward(retain_graph=True)
    opt.step()
"""


def test_a_step_in_between_is_reordered_as_far_as_the_run_shows_it_right(file, tmp_path):
    file.write_text(CARRIED)
    done = run("--fix", "train.py", cwd=tmp_path)
    assert file.read_text() == CARRIED.replace("retain_graph=True", "") + "    h = h.detach()\n"
    assert done.returncode == 0
    assert "unchanged in 2 backwards; from there on it is another training" in done.stderr


def test_a_good_program_is_left_alone(file, tmp_path):
    file.write_text(FIXED)
    done = run("--fix", "train.py", cwd=tmp_path)
    assert file.read_text() == FIXED
    assert done.returncode == 0
    assert done.stdout.startswith("RESULT")
    assert "Nothing to repair." in done.stderr


def test_other_errors_are_none_of_its_business(file, tmp_path):
    file.write_text("import torch\n\nprint('here')\nraise SystemExit(3)\n")
    done = run("--fix", "train.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "here\n")


def test_where_to_cut_a_graph_is_not_its_to_decide(file, tmp_path):
    carried = BUG.replace("h += 1\n", "").replace("loss.backward()", "for _ in range(2):\n    loss.backward()")
    file.write_text(carried)
    done = run("--fix", "train.py", cwd=tmp_path)
    assert (done.returncode, file.read_text()) == (1, carried)
    assert "OUT207 freed" in done.stderr
    assert "Not repaired: you must choose where to detach: a detach changes what" in done.stderr


def test_a_program_that_is_killed(file, tmp_path):
    file.write_text("import os, signal\nprint('begun', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n")
    done = run("--fix", "train.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (128 + signal.SIGKILL, "begun\n")
    assert done.stderr == "Nothing to repair: the program was ended by SIGKILL.\n"


def test_code_from_the_command_line_has_no_file(tmp_path):
    done = run("--fix", "-c", "print(1)", cwd=tmp_path)
    assert done.returncode != 0
    assert "--fix needs a program that is in a file" in done.stderr


def test_interrupted(file, tmp_path, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(from_run.Repair, "run", interrupt)
    assert main(["run", "--fix", "train.py"]) == 130
    assert capsys.readouterr().err == "outplace: stopped; nothing was changed\n"
    assert file.read_text() == BUG


@pytest.mark.parametrize("trouble", [KeyboardInterrupt(), files.Unwritable("cannot be written: it is read-only")])
def test_all_files_are_written_or_none(trouble, tmp_path, monkeypatch):
    paths = [str(tmp_path / name) for name in ("a.py", "b.py")]
    for path in paths:
        Path(path).write_text("old")
    before = {path: files.read(path) for path in paths}
    write = files.write

    def refuse_new_b(path, data):
        if path == paths[1] and data == b"new":
            raise trouble
        write(path, data)

    monkeypatch.setattr(files, "write", refuse_new_b)
    with pytest.raises((KeyboardInterrupt, OutplaceError)) as caught:
        write_all(dict.fromkeys(paths, b"new"), before)
    assert [files.read(path).text for path in paths] == ["old", "old"]
    assert isinstance(caught.value, KeyboardInterrupt) or "b.py: cannot be written" in str(caught.value)


def test_what_the_program_prints_is_shown_once_and_at_once(file, tmp_path):
    """What was printed before the error streams. The repaired program adds what comes after it."""
    file.write_text('print("START")\n' + BUG)
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "outplace", "run", "--fix", "train.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "START\n"
    assert process.poll() is None  # it is not over yet
    out, err = process.communicate(timeout=300)
    assert out.startswith("RESULT ") and len(out.splitlines()) == 1
    assert "outplace: run 2: compute the right gradients, to compare with" in err
    assert "outplace: run 3: repair 1 of 2: Write `+` out of place" in err
    assert err.splitlines()[-1] == "The repaired program goes on to print:"


def test_output_that_differs_from_run_to_run_is_shown_from_there_on(file, tmp_path):
    file.write_text('import os\nprint("START")\nprint(os.getpid())\n' + BUG)
    lines = run("--fix", "train.py", cwd=tmp_path).stdout.splitlines()
    assert (lines[0], lines[3].split()[0], len(lines)) == ("START", "RESULT", 4)
    assert lines[1] != lines[2]
