"""Ctrl-C, in every phase: files are as they were, the exit code is 130, and a line says so.

The program itself sends the signal to its whole process group, as a terminal does, when it is run for the given time:
first by itself, then with the changes laid over its files, then as written.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.reclaim.recorded import advised, record

import forks
from outplace.cli.main import main
from outplace.reclaim.drive import command, proving
from outplace.reclaim.drive.proving import Reclaim
from outplace.reclaim.drive.trials import Trials
from outplace.reclaim.observe.digests import Digests
from outplace.reclaim.observe.trial import Trial
from outplace.reclaim.outcome import Outcome
from outplace.repair.syntax import files

PROGRAM = """\
import os
import signal
import sys
from pathlib import Path

runs = Path("runs")
runs.write_text((runs.read_text() if runs.exists() else "") + "x")
if len(runs.read_text()) == int(sys.argv[1]):
    Path("seen").write_text(Path(__file__).read_text())
    os.kill(os.getppid(), signal.SIGINT)  # Ctrl-C
    os.kill(os.getpid(), signal.SIGINT)

import torch
from torch import nn

net = nn.Sequential(nn.Linear(32, 128), nn.LeakyReLU(), nn.Linear(128, 128), nn.LeakyReLU(), nn.Linear(128, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
while True:
    optimizer.zero_grad()
    net(torch.randn(512, 32)).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("run", "words"), [(1, []), (2, ["--diff"]), (3, ["--fix"])])
def test_a_run_of_the_program_is_interrupted(tmp_path, run, words):
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    reports = ["--json", "o.json", "--html", "o.html"]
    stopped = forks.python(
        tmp_path, "-m", "outplace", "reclaim", "--steps", "1", *words, *reports, "train.py", str(run)
    )
    assert stopped.returncode == 130, stopped.stderr
    assert stopped.stderr.endswith("outplace: stopped; nothing was changed\n")
    assert (tmp_path / "runs").read_text() == "x" * run
    assert ("inplace=True" in (tmp_path / "seen").read_text()) == (run == 3)
    assert path.read_text() == PROGRAM
    assert sorted(one.name for one in tmp_path.iterdir()) == ["runs", "seen", "train.py"]


# -- between two runs, in one process ---------------------------------------------------------------------------------


@pytest.fixture
def scene(tmp_path, monkeypatch):
    """A program of two files, both of which a run of the command would change."""
    main_file, other = tmp_path / "train.py", tmp_path / "other.py"
    main_file.write_text(PROGRAM.replace("int(sys.argv[1])", "0").replace("while True", "for _ in range(2)"))
    other.write_text("# another file\n")
    monkeypatch.chdir(tmp_path)
    advice, _ = advised(main_file)
    recording = record(main_file)
    recording.files = [str(main_file)]
    first = Trial(0, False, False, b"", "", recording, Digests(["a"], ["a"], ["a"]))
    texts = {str(path): path.read_text() + "# changed\n" for path in (main_file, other)}
    originals = {str(path): path.read_text() for path in (main_file, other)}
    outcome = Outcome(first, advice, first, texts, originals)
    monkeypatch.setattr(Trials, "run", lambda self, *_, **__: first)
    monkeypatch.setattr(Reclaim, "run", lambda self: outcome)
    return originals


def interrupted(*_, **__):
    raise KeyboardInterrupt


def test_while_it_thinks(scene, monkeypatch, capsys):
    monkeypatch.undo()
    monkeypatch.chdir(Path(next(iter(scene))).parent)
    monkeypatch.setattr(Trials, "run", lambda self, *_, **__: Trial(0, False, False, b"", "", record_of(scene), None))
    monkeypatch.setattr(proving, "advise", interrupted)
    assert main(["reclaim", "--fix", next(iter(scene))]) == 130
    assert capsys.readouterr().err.endswith("outplace: stopped; nothing was changed\n")
    assert {path: Path(path).read_text() for path in scene} == scene


def record_of(scene):
    return record(Path(next(iter(scene))))


def test_between_two_files(scene, monkeypatch, capsys):
    written = []
    write = files.write

    def write_one_only(path, data):
        written.append(path)
        if len(written) == 2:
            raise KeyboardInterrupt
        write(path, data)

    monkeypatch.setattr(files, "write", write_one_only)
    assert main(["reclaim", "--fix", "train.py"]) == 130
    assert capsys.readouterr().err.endswith("outplace: stopped; nothing was changed\n")
    assert written == [*scene, next(iter(scene))]  # the first was put back
    assert {path: Path(path).read_text() for path in scene} == scene


def test_what_somebody_has_changed_meanwhile_is_left_to_them(scene, monkeypatch):
    def edited_and_interrupted(*_):
        Path("other.py").write_text("# their own\n")
        raise KeyboardInterrupt

    monkeypatch.setattr(Reclaim, "holds_on_disk", edited_and_interrupted)
    assert main(["reclaim", "--fix", "train.py"]) == 130
    assert Path("other.py").read_text() == "# their own\n"
    assert Path("train.py").read_text() == scene[str(Path("train.py").resolve())]


def test_when_all_is_written_but_the_report(scene, monkeypatch, capsys):
    monkeypatch.setattr(Reclaim, "holds_on_disk", lambda *_: True)
    monkeypatch.setattr(command, "as_data", interrupted)
    assert main(["reclaim", "--fix", "train.py"]) == 130
    assert capsys.readouterr().err.endswith("outplace: stopped; train.py, other.py was written\n")
    assert all(Path(path).read_text() == text + "# changed\n" for path, text in scene.items())
