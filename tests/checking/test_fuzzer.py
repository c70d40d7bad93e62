"""The fuzzer itself: it must find what it looks for, and name the input that shows it."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from pathlib import Path

import pytest

from outplace.source import analysis
from outplace.source.analysis import Checked

PATH = Path(__file__).parents[2] / "benchmarks" / "fuzz_check.py"


@pytest.fixture(scope="module")
def fuzzer():
    spec = importlib.util.spec_from_file_location("fuzz_check", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz_check"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def corpus(tmp_path):
    for number in range(3):
        lines = [f"def f{number}_{nth}(x):\n    y = x.exp()\n    y += {nth}\n    return y\n" for nth in range(20)]
        (tmp_path / f"m{number}.py").write_text("import torch\n" + "\n\n".join(lines))
    return str(tmp_path)


def fuzz(fuzzer, monkeypatch, capsys, check_file, *args):
    monkeypatch.setattr(analysis, "check_file", check_file)
    monkeypatch.setattr(fuzzer, "GRACE", 0.5)
    monkeypatch.setattr(sys, "argv", ["fuzz_check", *args, "--jobs", "2", "--limit", "0.5"])
    code = fuzzer.main()
    return code, capsys.readouterr().out


def test_inputs_are_the_same_every_time(fuzzer, corpus):
    one, other = fuzzer.Corpus([corpus]), fuzzer.Corpus([corpus])
    texts = [one.input(7, index) for index in range(60)]
    assert texts == [other.input(7, index) for index in reversed(range(60))][::-1]
    assert len(set(texts)) > 50
    assert texts != [one.input(8, index) for index in range(60)]


def test_nothing_found(fuzzer, corpus, monkeypatch, capsys):
    code, out = fuzz(fuzzer, monkeypatch, capsys, lambda *_: Checked([], None, ()), corpus, "--inputs", "130")
    assert code == 0
    assert "130 inputs in" in out
    assert "130 clean, 0 findings, 0 refused, 0 crash, 0 hang" in out


def test_errors_crashes_and_hangs_are_found(fuzzer, corpus, monkeypatch, capsys):
    def faulty(path, source, project):
        index = int(path.split("_")[-1].removesuffix(".py"))
        if index == 3:
            raise KeyError("three")
        if index == 6:
            os._exit(5)
        if index == 12:  # as code in C would
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF])
        while index in (9, 12):
            pass
        return Checked([], None, ())

    code, out = fuzz(fuzzer, monkeypatch, capsys, faulty, corpus, "--inputs", "20", "--seed", "4")
    assert code == 1
    assert "crash x1: KeyError: 'three' at " in out
    assert "(--seed 4 --only 3)" in out
    assert "crash x1: the process ended with code 5  (--seed 4 --only 6)" in out
    assert "(--seed 4 --only 9)" in out
    assert "hang x1: not even the alarm was heeded  (--seed 4 --only 12)" in out
