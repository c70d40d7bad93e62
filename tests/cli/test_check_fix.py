"""`check --fix`, `--diff`, `--add-noqa`, `--watch`, `--show-settings` and `--color`, as a user runs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outplace.checking import config
from outplace.checking import config as configs

BUG = """import torch

x = torch.ones(3, requires_grad=True)
h = x.exp()
h += 1
h.sum().backward()
"""
FIXED = BUG.replace("h += 1", "h = h + 1")
WARNING = """import torch


def f(x):
    n = x.pow(2).sum()
    x /= n
    return x
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def outplace(*words, stdin=None, **environment):
    command = [sys.executable, "-m", "outplace", *words]
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, input=stdin, env=env, timeout=120)


def test_fix_writes_what_the_command_fix_writes():
    Path("a.py").write_text(BUG)
    done = outplace("check", "--fix")
    assert (done.returncode, done.stdout) == (0, "All checks passed!\n")
    assert done.stderr == "a.py:5: OUT201 saved: Write `+` out of place\noutplace: 1 fixed\n"
    by_check = Path("a.py").read_text()
    Path("a.py").write_text(BUG)
    outplace("fix")
    assert by_check == Path("a.py").read_text() == FIXED


def test_the_exit_code_of_fix_is_that_of_what_remains():
    Path("a.py").write_text(BUG)
    Path("b.py").write_text(WARNING)
    done = outplace("check", "--fix", "--output-format", "json")
    assert done.returncode == 1
    assert [finding["file"] for finding in json.loads(done.stdout)] == ["b.py"]
    assert outplace("check", "--fix", "--exit-zero").returncode == 0
    assert outplace("check", "--fix", "--unsafe-fixes").returncode == 0
    assert "x = x / n" in Path("b.py").read_text()


def test_fix_leaves_what_is_not_selected():
    Path("a.py").write_text(BUG)
    assert outplace("check", "--fix", "--ignore", "saved").returncode == 0
    assert outplace("check", "--fix", "--exclude", "a.py").returncode == 0
    assert Path("a.py").read_text() == BUG


def test_fix_of_a_file_that_is_no_python():
    Path("a.py").write_text("import torch\nx += = 1\n")
    done = outplace("check", "--fix")
    assert done.returncode == 1
    assert (done.stdout + done.stderr).count("a.py:2: SyntaxError: invalid syntax") == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_fix_of_a_file_that_cannot_be_written():
    Path("a.py").write_text(BUG)
    Path("a.py").chmod(0o444)
    done = outplace("check", "--fix")
    assert done.returncode == 2
    assert "a.py: cannot be written: it is read-only" in done.stderr
    assert "OUT201" in done.stdout


def test_fix_of_stdin_puts_the_source_on_stdout():
    done = outplace("check", "--fix", "-", stdin=BUG + WARNING)
    assert (done.returncode, done.stdout) == (1, FIXED + WARNING)
    assert "Found 1 warning in 1 file." in done.stderr


def test_diff_writes_nothing_and_says_by_its_code_whether_something_would_change():
    Path("a.py").write_text(BUG)
    done = outplace("check", "--diff")
    assert (done.returncode, done.stderr) == (1, "1 would be fixed, 0 remaining.\n")
    assert Path("a.py").read_text() == BUG
    assert done.stdout == outplace("fix", "--diff").stdout
    subprocess.run(["patch", "-p1"], input=done.stdout, text=True, check=True, capture_output=True)
    assert Path("a.py").read_text() == FIXED
    assert outplace("check", "--diff").returncode == 0


def test_a_diff_names_a_file_elsewhere_by_its_path(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    Path("a.py").write_text(BUG)
    os.chdir(inner)
    header = outplace("check", "--diff", "../a.py").stdout.splitlines()[:2]
    assert header == [f"--- {tmp_path}/a.py", f"+++ {tmp_path}/a.py"]


def test_add_noqa():
    Path("a.py").write_text(BUG.replace("h += 1", "h += 1  # noqa: E501"))
    Path("b.py").write_bytes(WARNING.replace("\n", "\r\n").encode())
    done = outplace("check", "--add-noqa")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "outplace: added 2 noqa comments\n")
    assert "h += 1  # noqa: E501, OUT201\n" in Path("a.py").read_text()
    assert b"    x /= n  # noqa: OUT201\r\n" in Path("b.py").read_bytes()
    assert outplace("check").returncode == 0
    assert outplace("check", "--add-noqa").stderr == "outplace: added 0 noqa comments\n"


def test_add_noqa_leaves_notebooks():
    cells = [{"cell_type": "code", "source": BUG, "metadata": {}, "outputs": [], "execution_count": None}]
    book = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    Path("a.ipynb").write_text(book)
    done = outplace("check", "--add-noqa")
    assert done.returncode == 2
    assert "a.ipynb: comments are not added to notebooks" in done.stderr
    assert Path("a.ipynb").read_text() == book


def test_the_settings_shown_are_a_configuration_that_does_the_same(tmp_path):
    Path("pyproject.toml").write_text(
        '[tool.outplace]\nignore = ["OUT3"]\nextend-exclude = ["old"]\n'
        '[tool.outplace.per-file-ignores]\n"tests/" = ["leaf"]\n'
    )
    done = outplace("check", "--show-settings", "--severity", "error", "--exclude", "new")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("# configuration file: pyproject.toml\n")
    Path("shown.toml").write_text(done.stdout)
    shown = configs.load("shown.toml")
    assert (shown.severity, shown.extend_exclude) == ("error", ["old", "new"])
    assert shown.per_file_ignores == {"tests/": ["leaf"]}
    assert set(config.load_toml("shown.toml")["tool"]["outplace"]) | {"extend-select", "baseline"} == set(configs._KEYS)
    again = outplace("check", "--show-settings", "--config", "shown.toml").stdout
    assert again.splitlines()[1:] == done.stdout.splitlines()[1:]


def test_no_configuration_has_no_file():
    assert outplace("check", "--show-settings").stdout.startswith("# configuration file: none\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--diff", "--add-noqa"], "--diff and --add-noqa cannot be used together"),
        (["--watch", "--write-baseline", "x"], "--watch and --write-baseline cannot be used together"),
        (["--watch", "-"], "--watch needs files"),
    ],
)
def test_options_that_contradict_each_other(words, said):
    done = outplace("check", *words, stdin="")
    assert done.returncode == 2
    assert said in done.stderr


def test_color():
    Path("a.py").write_text(BUG)
    for words in (["check"], ["check", "--diff"], ["rules"], ["op", "exp"], ["explain", "leaf"]):
        plain = outplace(*words, NO_COLOR="", FORCE_COLOR="")
        colored = outplace(*words, "--color", "always", NO_COLOR="1")
        assert "\x1b[" not in plain.stdout
        assert ("\x1b[3" if words[0] == "check" else "\x1b[") in colored.stdout  # `rules` is only bold and dim
        assert "\x1b[" not in outplace(*words, "--color", "never", FORCE_COLOR="1").stdout
        assert "\x1b[" in outplace(*words, OUTPLACE_COLOR="always").stdout


class Watch:
    """A running `outplace check --watch`."""

    def __init__(self, *words):
        command = [sys.executable, "-u", "-m", "outplace", "check", "--watch", "--output-format", "concise", *words]
        with open("out", "wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def wait(self, times):
        """The output after this many checks."""
        end = time.monotonic() + 60
        while (text := Path("out").read_text()).count("watching for changes") < times:
            assert self.process.poll() is None, text
            assert time.monotonic() < end, text
            time.sleep(0.05)
        return text


def test_watch_checks_again_when_a_file_changes():
    Path("a.py").write_text(FIXED)
    with Watch() as watch:
        assert "All checks passed!" in watch.wait(1)
        Path("a.py").write_text(BUG)
        assert "a.py:5:1: OUT201" in watch.wait(2)
        Path("pyproject.toml").write_text("[tool.outplace]\nignore = 3\n")
        Path("a.py").write_text(FIXED)
        assert "ignore must be a list" in watch.wait(3)
        Path("b.py").write_text(BUG)
        Path("pyproject.toml").unlink()
        assert "b.py:5:1: OUT201" in watch.wait(4)
        watch.process.send_signal(signal.SIGINT)
        assert watch.process.wait(10) == 0
    assert "Traceback" not in Path("out").read_text()
