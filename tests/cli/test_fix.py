"""`outplace fix` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from outplace.cli.main import main
from outplace.repair.drive import from_source
from outplace.repair.syntax import files

BUG = """import torch

x = torch.ones(3, requires_grad=True)
h = x.exp()
h += 1  # one more
h.sum().backward()
"""
FIXED = BUG.replace("h += 1", "h = h + 1")
STEPPED = """import torch

net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
loss = net(torch.ones(1, 2)).sum()
loss.backward(retain_graph=True)
opt.step()
loss.backward()
"""


TWO_MEANINGS = """import torch
from torch import nn

G, D = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
opt_g, opt_d = torch.optim.SGD(G.parameters(), lr=0.1), torch.optim.SGD(D.parameters(), lr=0.1)
def losses(z):
    score = D(G(z))
    return score.sum(), -score.sum()

for z in torch.ones(3, 1, 2):
    loss_d, loss_g = losses(z)
    opt_d.zero_grad()
    loss_d.backward(retain_graph=True)
    opt_d.step()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
"""


def fix(*args, cwd, text=None):
    command = [sys.executable, "-m", "outplace", "fix", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, input=text, timeout=120)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(BUG)
    return path


def test_a_file_is_fixed(file, tmp_path):
    done = fix("train.py", cwd=tmp_path)
    assert file.read_text() == FIXED
    assert done.returncode == 0
    assert "train.py:5: OUT201 saved: Write `+` out of place" in done.stdout
    assert done.stdout.endswith("1 fixed, 0 remaining.\n")


def test_however_many_there_are_all_are_fixed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(from_source, "_LEAST_ROUNDS", 1)
    path = tmp_path / "train.py"
    head, *lines = BUG.splitlines(keepends=True)
    path.write_text(head + "".join(lines) * 4)
    monkeypatch.chdir(tmp_path)
    assert main(["fix", "train.py"]) == 0
    assert path.read_text().count("h = h + 1") == 4
    assert capsys.readouterr().out.endswith("4 fixed, 0 remaining.\n")


def test_a_second_time_there_is_nothing_to_do(file, tmp_path):
    fix("train.py", cwd=tmp_path)
    done = fix(".", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "Nothing to fix.\n")


def test_diff_writes_nothing(file, tmp_path):
    done = fix("--diff", cwd=tmp_path)
    assert file.read_text() == BUG
    assert done.returncode == 1
    assert "-h += 1  # one more\n+h = h + 1  # one more\n" in done.stdout
    assert done.stderr == "1 would be fixed, 0 remaining.\n"


def test_diff_of_nothing(tmp_path):
    (tmp_path / "a.py").write_text(FIXED)
    assert fix("--diff", cwd=tmp_path).returncode == 0


def test_what_is_left_is_counted(file, tmp_path):
    file.write_text(STEPPED)
    done = fix(cwd=tmp_path)
    assert file.read_text() == STEPPED
    why = "OUT202: only a run shows which fix is right. Try outplace run --fix.\n"
    way = "--unsafe-fixes would do this: Compute `loss` again after the step, with the new weights\n"
    left = f"train.py:7: OUT202 stepped: not fixed; {way}"
    assert (done.returncode, done.stdout) == (1, f"{left}0 fixed, 1 remaining.\n{why}")


def test_where_several_repairs_may_be_meant_all_are_named(file, tmp_path):
    file.write_text(TWO_MEANINGS)
    done = fix(cwd=tmp_path)
    assert file.read_text() == TWO_MEANINGS
    left, first, second, *_ = done.stdout.splitlines()
    assert left == "train.py:14: OUT202 stepped: not fixed; the source does not show which of these is right:"
    assert first == "  - Compute `loss_g` again after the step, with the new weights"
    assert second.startswith("  - Step after the last backward")


def test_select_and_ignore(file, tmp_path):
    assert fix("--select", "leaf", cwd=tmp_path).stdout == "Nothing to fix.\n"
    assert fix("--ignore", "OUT2", cwd=tmp_path).stdout == "Nothing to fix.\n"
    assert file.read_text() == BUG
    fix("--select", "OUT201", cwd=tmp_path)
    assert file.read_text() == FIXED


def test_noqa(file, tmp_path):
    file.write_text(BUG.replace("# one more", "# noqa: OUT201"))
    assert fix(cwd=tmp_path).stdout == "Nothing to fix.\n"


def test_excluding_means_the_same_as_in_check(tmp_path):
    for name in ("a.py", "old/c.py", "build/d.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(BUG)
    command = [
        sys.executable,
        "-m",
        "outplace",
        "check",
        "--exclude",
        "a.py",
        "--output-format",
        "concise",
        "--no-cache",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    checked = {line.split(":")[0] for line in done.stdout.splitlines() if "OUT" in line}
    assert fix("--exclude", "a.py", cwd=tmp_path).returncode == 0
    fixed = {name for name in ("a.py", "old/c.py", "build/d.py") if (tmp_path / name).read_text() != BUG}
    assert fixed == checked == {"old/c.py"}


def test_stdin(tmp_path):
    done = fix("-", cwd=tmp_path, text=BUG)
    assert (done.returncode, done.stdout) == (0, FIXED)
    assert "1 fixed, 0 remaining." in done.stderr


def test_bytes_are_kept(file, tmp_path):
    file.write_bytes(b"\xef\xbb\xbf" + BUG.replace("\n", "\r\n").encode())
    fix(cwd=tmp_path)
    assert file.read_bytes() == b"\xef\xbb\xbf" + FIXED.replace("\n", "\r\n").encode()


def test_a_file_that_is_no_python(file, tmp_path):
    file.write_text("import torch\nx += = 1\n")
    done = fix(cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "outplace: train.py:2: SyntaxError: invalid syntax\n")
    file.write_bytes(b"import torch\nx = 'caf\xe9'\n")
    done = fix(cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "outplace: train.py:2: not utf-8: byte 0xe9 cannot be decoded\n")


def test_a_file_too_large_for_a_person_is_passed_over(file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("outplace.files.reading.LARGEST", len(BUG) - 1)
    assert main(["fix"]) == 0
    assert file.read_text() == BUG
    assert capsys.readouterr().err.startswith("outplace: train.py: skipped: 0.0 MB is too large for source")


def test_a_file_that_cannot_be_written(file, tmp_path, monkeypatch, capsys):
    def refuse(path, data):
        raise files.Unwritable("cannot be written: it is read-only")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "write", refuse)  # root may write everything
    assert main(["fix"]) == 2
    assert file.read_text() == BUG
    said = capsys.readouterr()
    assert said.err == "outplace: train.py: cannot be written: it is read-only; nothing was changed\n"
    assert said.out == "0 fixed, 1 remaining.\n"


def test_a_fault_of_ours_is_one_line(file, tmp_path, monkeypatch, capsys):
    def fault(*_):
        raise ZeroDivisionError("oops")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("outplace.source.analysis.check_file", fault)
    assert main(["fix"]) == 2
    assert file.read_text() == BUG
    said = capsys.readouterr().err
    assert said.startswith("outplace: train.py: internal error of outplace, please report it: ZeroDivisionError: oops")
    assert said.count("\n") == 1


def test_notebooks_are_left_alone_and_said_to_be(tmp_path):
    cell = {"cell_type": "code", "source": BUG}
    (tmp_path / "train.ipynb").write_text(json.dumps({"cells": [cell], "nbformat": 4}))
    before = (tmp_path / "train.ipynb").read_bytes()
    done = fix("train.ipynb", cwd=tmp_path)
    assert done.stderr == "outplace: 1 notebook was not changed; outplace check shows what to change\n"
    assert (tmp_path / "train.ipynb").read_bytes() == before
    assert fix("--quiet", cwd=tmp_path).stderr == ""


CALLED = """import torch


def scale(x):
    y = torch.exp(x)
    shift(y)
    return y.sum()


def shift(t):
    t += 1


scale(torch.ones(2, requires_grad=True)).backward()
"""


def test_what_a_caller_is_to_see_is_still_written(file, tmp_path):
    file.write_text(CALLED)
    fix(cwd=tmp_path)
    assert file.read_text() == CALLED.replace("torch.exp(x)", "torch.exp(x).clone()")


def test_callers_in_other_files_count(file, tmp_path):
    own = BUG.replace("h = x.exp()\nh += 1  # one more\nh.sum().backward()", "f(x.exp() * 1).backward()").replace(
        "x = torch", "def f(h):\n    y = h * h\n    h += 1\n    return (y + h).sum()\n\n\nx = torch"
    )
    file.write_text(own)
    fix(cwd=tmp_path)
    assert "h = h + 1" in file.read_text()
    file.write_text(own)
    (tmp_path / "other.py").write_text("import torch\nfrom train import f\n\na = torch.ones(3)\nf(a)\nprint(a)\n")
    fix("train.py", cwd=tmp_path)
    assert file.read_text() == own, "the other file prints what f has written: is it meant to?"


def test_torch_is_not_needed(file, tmp_path):
    code = "import sys; sys.modules['torch'] = None; from outplace.cli.main import main; sys.exit(main(['fix']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert file.read_text() == FIXED


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["-", "train.py"], "cannot be fixed together"),
        (["--stdin-filename", "a.py"], "needs the path -"),
        (["--config", "a.toml", "--isolated"], "cannot be used together"),
        (["--select", "OUT999"], "OUT999"),
    ],
)
def test_what_makes_no_sense(file, tmp_path, args, words):
    done = fix(*args, cwd=tmp_path, text="")
    assert done.returncode == 2 or done.returncode == 1
    assert words in done.stderr
    assert file.read_text() == BUG


def test_a_named_file_is_parsed_even_without_torch(file, tmp_path):
    file.write_text("def f(:\n")
    assert fix(cwd=tmp_path).returncode == 0
    done = fix("train.py", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "outplace: train.py:1: SyntaxError: invalid syntax\n")
