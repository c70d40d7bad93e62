"""The command line itself: quick, clear, and without torch until a command needs it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from importlib import metadata

import pytest

import outplace as package
from side_by_side import OUTPLACE, PYTHON, environment, outplace, write


def test_version_is_quick_and_without_torch(tmp_path):
    times = []
    for _ in range(5):
        before = os.times()
        done = subprocess.run([OUTPLACE, "--version"], cwd=tmp_path, env=environment(), capture_output=True)
        after = os.times()
        versions = f"Python {platform.python_version()}, torch {metadata.version('torch')}"
        assert done.stdout.decode() == f"outplace {package.__version__} ({versions})\n"
        times.append(after.children_user - before.children_user + after.children_system - before.children_system)
    assert min(times) < 0.2
    look = "print({'torch', 'rich'} & sys.modules.keys())"
    script = f"import sys\nfrom outplace.cli.main import main\nmain(['--version'])\n{look}"
    done = subprocess.run([PYTHON, "-c", script], cwd=tmp_path, env=environment(), capture_output=True)
    assert done.stdout.decode().splitlines()[-1] == "set()"


@pytest.mark.parametrize("words", [["--help"], ["-h"], []])
def test_help(tmp_path, words):
    ending = outplace(tmp_path, *words)
    said = ending.stdout.decode() + ending.stderr
    assert "Usage: outplace" in said
    for command in ("run", "explain", "rules"):
        assert f"\n  {command} " in said
    assert ending.code == (0 if words else 2)


def test_help_of_run(tmp_path):
    ending = outplace(tmp_path, "run", "--help")
    assert ending.code == 0
    assert ending.stdout.decode().startswith("Usage: outplace run [OPTIONS] (SCRIPT | -m MODULE | -c CODE) [ARGS]...\n")
    assert "outplace run train.py" in ending.stdout.decode()
    assert "--json FILE" in ending.stdout.decode()


@pytest.mark.parametrize(
    "words, said",
    [
        (["run"], "Which program? Try: outplace run train.py"),
        (["run", "--json", "o.json"], "Which program?"),
        (["run", "--jsno", "x", "prog.py"], "No such option"),
        (["run", "-m"], "argument expected for the -m option"),
        (["run", "-c"], "argument expected for the -c option"),
        (["run", "--json"], "requires an argument"),
        (["run", "--json", "-", "prog.py"], "a report needs a file, because the program uses stdout"),
        (["run", "--fix", "--fix-timeout", "0", "prog.py"], "not in the range x>0"),
        (["run", "--unsafe-fixes", "prog.py"], "need --fix or --diff"),
        (["run", "book.ipynb", "--lr", "1"], "book.ipynb is a notebook: run %load_ext outplace in it"),
        (["reclaim", "--fix", "book.ipynb"], "book.ipynb is a notebook"),
        (["train.py", "--lr", "1"], "Did you mean: outplace run train.py"),
        (["book.ipynb"], "Did you mean: outplace check book.ipynb"),
        (["runn"], "No such command 'runn'. Did you mean: outplace run"),
        (["chek", "."], "No such command 'chek'. Did you mean: outplace check"),
        (["zzz"], "The commands are check, "),
        (["--no-such"], "No such option"),
        (["run", "nothing.py"], "can't open file"),
        (["run", "--json", "no/such/folder/o.json", "prog.py"], "there is no folder"),
        (["run", "--json", ".", "prog.py"], "it is a folder"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(tmp_path, words, said):
    write(tmp_path, "prog.py", "print('must not run')")
    ending = outplace(tmp_path, *words)
    assert said in ending.stderr
    assert "Traceback" not in ending.stderr
    assert ending.stdout == b""
    assert ending.code == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a file that is always full")
@pytest.mark.parametrize("words", [["rules"], ["check", "--output-format", "json"]])
def test_a_full_disk_is_no_finding(tmp_path, words):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [OUTPLACE, *words], cwd=tmp_path, env=environment(), stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, "outplace: no space left on device")
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(tmp_path):
    write(tmp_path, "prog.py", "print('must not run')")
    (tmp_path / "locked").mkdir(mode=0o500)
    ending = outplace(tmp_path, "run", "--json", "locked/o.json", "prog.py")
    assert "not writable" in ending.stderr
    assert (ending.stdout, ending.code) == (b"", 2)


def test_as_a_module_of_python(tmp_path):
    write(tmp_path, "prog.py", "import sys; print(sys.argv, sys.path[0]); sys.exit(4)")
    done = subprocess.run(
        [PYTHON, "-m", "outplace", "run", "prog.py", "a"], cwd=tmp_path, env=environment(), capture_output=True
    )
    assert done.stdout.decode() == f"['prog.py', 'a'] {tmp_path}\n"
    assert done.returncode == 4


# -- the JSON report is always there --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source, code",
    {
        "print('fine')": 0,
        "1 / 0": 1,
        "import sys; sys.exit(5)": 5,
        "import os; os._exit(6)": 6,
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": -9,
        "import os; os.chdir('/'); print(1)": 0,
        "if": 1,
        "import os; os.remove('o.json')": 0,
        "import os\nif os.fork() == 0: raise SystemExit(1)\nos.wait()": 0,
        "import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'print(1)'])": 0,
    }.items(),
)
def test_a_program_without_torch_leaves_an_empty_report(tmp_path, source, code):
    write(tmp_path, "prog.py", source)
    (tmp_path / "o.json").write_text("stale")
    ending = outplace(tmp_path, "run", "--json", "o.json", "prog.py", TMPDIR=str(tmp_path))
    report = json.loads((tmp_path / "o.json").read_text())
    versions = {"outplace": package.__version__, "torch": None, "python": platform.python_version()}
    assert report == {"schema": 1, **versions, "diagnoses": [], "sources": {}}
    assert ending.code == code
    if code not in (-9, 6) and "execv" not in source:
        assert not list(tmp_path.glob("outplace-*"))


def test_no_such_program_leaves_an_empty_report(tmp_path):
    (tmp_path / "o.json").write_text("stale")
    assert outplace(tmp_path, "run", "--json", "o.json", "nothing.py").code == 2
    assert json.loads((tmp_path / "o.json").read_text())["diagnoses"] == []


def test_a_report_that_can_no_longer_be_written_does_not_change_the_exit_code(tmp_path):
    (tmp_path / "gone").mkdir()
    write(tmp_path, "prog.py", "import shutil, sys; shutil.rmtree('gone'); sys.exit(3)")
    ending = outplace(tmp_path, "run", "--json", "gone/o.json", "prog.py")
    assert ending.code == 3
    assert ending.stderr.startswith("outplace: cannot write the report to ")


def test_a_report_into_a_pipe_is_written_once(tmp_path):
    write(tmp_path, "prog.py", "import sys; print('out'); sys.stdout.flush()")
    ending = outplace(tmp_path, "run", "--json", "/dev/stderr", "prog.py")
    assert ending.stdout == b"out\n"
    assert json.loads(ending.stderr)["diagnoses"] == []


def test_no_report_no_folder(tmp_path):
    write(tmp_path, "prog.py", "import os; os._exit(0)")
    assert outplace(tmp_path, "run", "prog.py", TMPDIR=str(tmp_path)).code == 0
    assert os.listdir(tmp_path) == ["prog.py"]


# -- OUTPLACE in the environment ------------------------------------------------------------------------------------


def test_without_outplace_in_the_environment_nothing_is_imported(tmp_path):
    write(tmp_path, "prog.py", "import sys; print([name for name in sys.modules if name.startswith('outplace')])")
    for value in (None, "", "0"):
        env = environment() if value is None else environment(OUTPLACE=value)
        done = subprocess.run([PYTHON, "prog.py"], cwd=tmp_path, env=env, capture_output=True)
        assert done.stdout.decode().strip() == "[]"


def test_outplace_in_the_environment_is_quick_and_leaves_torch_out(tmp_path):
    write(tmp_path, "prog.py", "import sys; print(*(name in sys.modules for name in ('outplace', 'torch', 'rich')))")
    start = time.monotonic()
    done = subprocess.run([PYTHON, "prog.py"], cwd=tmp_path, env=environment(OUTPLACE="1"), capture_output=True)
    assert done.stdout.decode().split() == ["True", "False", "False"]
    assert done.stderr == b""
    assert time.monotonic() - start < 5
