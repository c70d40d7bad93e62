"""The command: what it refuses, what it says, what it writes, and what it puts back."""

from __future__ import annotations

import json
import subprocess
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from tests.reclaim.recorded import advised, record

import forks
from outplace.cli.main import main
from outplace.errors import OutplaceError
from outplace.reclaim.drive.command import Command
from outplace.reclaim.drive.proving import Reclaim
from outplace.reclaim.drive.trials import Trials
from outplace.reclaim.observe.digests import Digests
from outplace.reclaim.observe.trial import Trial
from outplace.reclaim.outcome import Outcome

PROGRAM = """\
import torch
import torch.nn.functional as F
from torch import nn

net = nn.Sequential(
    nn.Linear(32, 128), nn.LeakyReLU(), nn.Linear(128, 128), nn.LeakyReLU(0.1), nn.Linear(128, 128), nn.Linear(128, 1)
)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(1_000_000):
    optimizer.zero_grad()
    loss = net(torch.randn(512, 32)).square().mean()
    loss.backward()
    optimizer.step()
"""


def reclaim(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return forks.python(folder, "-m", "outplace", "reclaim", *words)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "Which program?"),
        (["-c", "print(1)"], 2, "a program that is in a file"),
        (["-m"], 2, "Argument expected"),
        (["nowhere.py"], 2, "no such file: nowhere.py"),
        (["--no-proof", "--fix", "train.py"], 2, "--no-proof cannot be used with --fix"),
        (["--steps", "0", "train.py"], 2, "--steps"),
    ],
)
def test_what_makes_no_sense_is_said(tmp_path, monkeypatch, capsys, words, code, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    assert main(["reclaim", *words]) == code
    assert said in capsys.readouterr().err


def test_a_report_that_cannot_be_written_is_refused_before_the_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    assert main(["reclaim", "--json", "no/such/folder.json", "train.py"]) != 0
    assert "there is no folder" in capsys.readouterr().err


def test_an_endless_training_is_looked_at_for_some_steps_changed_and_proved(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    done = reclaim(tmp_path, "--fix", "--steps", "2", "--json", "o.json", "--html", "o.html", "train.py")
    assert done.returncode == 0, done.stderr
    changed = PROGRAM.replace("nn.LeakyReLU()", "nn.LeakyReLU(inplace=True)").replace(
        "LeakyReLU(0.1)", "LeakyReLU(0.1, inplace=True)"
    )
    assert path.read_text() == changed
    data = json.loads((tmp_path / "o.json").read_text())
    assert {one["after"] for one in data["suggestions"]} == {
        "nn.LeakyReLU(inplace=True)",
        "nn.LeakyReLU(0.1, inplace=True)",
    }
    assert data["proof"] | {"done": True, "steady": True, "losses": 2, "gradients": 2, "parameters": 2} == data["proof"]
    assert data["peak"]["after"] == data["peak"]["expected"] < data["peak"]["before"]
    assert "+    nn.Linear(32, 128), nn.LeakyReLU(inplace=True)" in data["diff"]
    assert "bit for bit" in done.stderr
    page = (tmp_path / "o.html").read_text()
    assert page.count("<polyline") == 2
    assert "nn.LeakyReLU(inplace=True)" in page


@pytest.mark.parametrize(
    ("source", "code", "said"),
    [
        ("import torch\ntorch.ones(3).log().requires_grad_().add_(1)", 1, "it has to run before"),
        ("import torch\ntorch.ones(3) + 1\nprint('done')", 0, "never called backward"),
        ("import sys\nsys.exit(3)", 3, "exit code 3"),
        ("import os\nos.kill(os.getpid(), 9)", 137, "the program was killed (SIGKILL)"),
        ("print('done')", 0, "only its main process and thread are looked at"),
    ],
)
def test_a_program_that_says_nothing_about_training(tmp_path, source, code, said):
    (tmp_path / "train.py").write_text(source)
    done = reclaim(tmp_path, "train.py")
    assert done.returncode == code
    assert said in done.stderr


# -- the proof, with runs that are made up ----------------------------------------------------------------------------


class Scripted(Trials):
    """Runs that end as the test says."""

    def __init__(self, path: Path, *testimonies: Digests) -> None:
        super().__init__([str(path)], 3, 1.0, nullcontext)
        self.told: list[str] = []
        self._first = Trial(0, False, False, b"", "", replace(record(path), files=[str(path)]), Digests())
        self._left = list(testimonies)

    def run(self, about, texts=None, ledger=True):
        self.told.append(about)
        return replace(self._first, digests=self._left.pop(0))


def says(*losses: str) -> Digests:
    return Digests(list(losses), list(losses), [])


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(PROGRAM.replace("range(1_000_000)", "range(2)"))
    return path


def test_all_hold(program):
    outcome = Reclaim(Scripted(program, says("a"), says("a"))).run()
    assert len(outcome.advice.paying) == 2
    assert "inplace=True" in outcome.texts[str(program)]


def test_one_that_changes_a_bit_is_left_out(program):
    """All together differ, the program is steady, the first alone holds, the second does not."""
    runs = Scripted(program, says("a"), says("b"), says("a"), says("a"), says("b"))
    outcome = Reclaim(runs).run()
    assert len(outcome.advice.paying) == len(outcome.rejected) == 1
    assert outcome.rejected[0].refused == "other losses (number 1 of 1)"
    first, together, *_, one, other = runs.told
    assert (first, together) == ("", "all 2 changes together")
    assert one.startswith("change 1 of 2, ") and other.startswith("change 2 of 2, ")
    assert outcome.texts[str(program)].count("inplace=True") == 1


def test_a_program_that_differs_from_run_to_run_proves_nothing(program):
    outcome = Reclaim(Scripted(program, says("a"), says("b"), says("c"))).run()
    assert outcome.unsteady
    assert not outcome.texts


def test_what_does_not_hold_on_disk_is_put_back(program, monkeypatch, capsys):
    text = program.read_text()
    advice, _ = advised(program)
    trials = Scripted(program, says("a"))
    first = trials.run("")
    outcome = Outcome(first, advice, first, {str(program): text.replace("LeakyReLU()", "LeakyReLU(inplace=True)")})
    seen = []
    monkeypatch.setattr(Reclaim, "run", lambda self: outcome)
    monkeypatch.setattr(Reclaim, "holds_on_disk", lambda self, _: seen.append(program.read_text()) or False)
    with pytest.raises(OutplaceError, match="put back"):
        Command([str(program)], 3, 1.0, False, True, False, False, True, False, None, None).run()
    assert "inplace=True" in seen[0]
    assert program.read_text() == text
