"""A repair ends in time. What it has not proved by then is left as it was."""

import importlib.util
from pathlib import Path

import pytest

from outplace.checking.file_check import check_text
from outplace.cli.main import main
from outplace.files import parsable
from outplace.repair.drive import from_source
from outplace.source import project
from outplace.source.project import OutOfTime, Project

GROWTH = Path(__file__).parents[3] / "benchmarks" / "growth.py"
spec = importlib.util.spec_from_file_location("growth", GROWTH)
growth = importlib.util.module_from_spec(spec)
spec.loader.exec_module(growth)

TWO = """import torch
w = torch.ones(3, requires_grad=True)
h = w.exp()
h += 1
g = w.sigmoid()
g *= 2
(h.sum() + g.sum()).backward()
"""
ONE_TENSOR = """import torch
w = torch.rand(3, 4).requires_grad_()
def f(w):
    seen = []
    h = w * w
    seen.append(h)
    a = h * h
    h += 1
    b = h * h
    h += 2
    return (a + b).sum() + sum(part.sum() for part in seen)
f(w).backward()
"""


class Clock:
    """CPU time that passes only where a test says so."""

    def __init__(self):
        self.now = 0.0

    def thread_time(self):
        return self.now

    monotonic = thread_time


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(from_source, "time", clock)
    monkeypatch.setattr(project, "time", clock)
    return clock


def findings(path, text, elsewhere=None):
    return check_text(path, text, Project(), fixes=False).findings


def repaired(text, check):
    return from_source.repair("p.py", text, check, lambda _: True)


def test_what_is_proved_before_the_time_is_over_is_kept(clock):
    def slow(path, text, elsewhere=None):
        clock.now += 4
        return findings(path, text)

    result = repaired(TWO, slow)
    assert result.ran_out
    assert [len(result.done), [finding.site.line for finding in result.left]] == [1, [6]]
    assert result.text == TWO.replace("h += 1", "h = h + 1")


def test_with_time_enough_both_are_repaired(clock):
    result = repaired(TWO, findings)
    assert (len(result.done), result.left, result.ran_out) == (2, (), False)


def test_of_one_tensor_nothing_is_changed_if_the_time_ends_in_between(clock):
    def slow(path, text, elsewhere=None):
        clock.now += 4
        return findings(path, text)

    at_first = findings("p.py", ONE_TENSOR)
    result = repaired(ONE_TENSOR, slow)
    assert (result.text, result.done, list(result.left)) == (ONE_TENSOR, (), list(at_first))
    assert result.ran_out
    with_time = repaired(ONE_TENSOR, findings)
    assert len(with_time.done) == len(at_first) > 1
    exec(compile(with_time.text, "p.py", "exec"), {})  # PyTorch agrees


def test_a_finding_that_takes_too_long_does_not_keep_the_next_from_being_repaired(clock):
    def slow(path, text, elsewhere=None):
        if "h += 1" not in text:
            raise OutOfTime
        return findings(path, text)

    result = repaired(TWO, slow)
    assert result.text == TWO.replace("g *= 2", "g = g * 2")
    assert result.ran_out


def test_an_analysis_that_was_cut_short_proves_nothing():
    """It finds less, because it has not looked at the rest."""

    def cut(path, text, elsewhere=None):
        if text != TWO:
            raise OutOfTime
        return findings(path, text)

    result = repaired(TWO, cut)
    assert (result.text, result.done, len(result.left), result.ran_out) == (TWO, (), 2, True)


def test_a_file_that_cannot_be_analysed_in_time_is_left():
    def cut(path, text, elsewhere=None):
        raise OutOfTime(findings(path, text)[:1])

    result = repaired(TWO, cut)
    assert (result.text, result.done, len(result.left), result.ran_out) == (TWO, (), 1, True)


def test_fix_says_so_and_leaves_the_file(tmp_path, monkeypatch, capsys):
    file = tmp_path / "slow.py"
    file.write_text(TWO)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(from_source, "_SECONDS_AT_THE_END", from_source.MOST_SECONDS_OF_A_FILE)
    assert main(["fix"]) == 1
    shown = capsys.readouterr()
    assert shown.err == "outplace: slow.py: takes too long to fix; nothing was changed\n"
    assert shown.out == "0 fixed, 2 remaining.\n"
    assert file.read_text() == TWO


@pytest.mark.parametrize("shape", ["views that are written", "many functions that write", "one tensor written again"])
def test_a_file_with_a_hundred_findings(shape):
    import time

    text = growth.SHAPES[shape](100)
    start = time.thread_time()
    result = from_source.repair("p.py", text, findings, lambda _: True, unsafe=True)
    assert time.thread_time() - start < 10
    after = findings("p.py", result.text)
    assert len(after) == len(result.left)
    assert result.ran_out or not after


def test_findings_without_a_candidate_take_no_longer(clock, monkeypatch):
    """For each of a hundred findings the search for candidates takes two seconds, and finds none."""

    def none(*given):
        clock.now += 2
        return iter(())

    monkeypatch.setattr(from_source, "propose", none)
    text = growth.SHAPES["views that are written"](100)
    result = from_source.repair("program.py", text, findings, lambda finding: True)
    assert (result.text, result.ran_out) == (text, True)
    assert clock.now <= from_source.MOST_SECONDS_OF_A_FILE


def test_a_file_too_large_for_the_trees_of_a_repair_is_left(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(parsable, "MOST_TOKENS_TO_REPAIR", 100)
    assert repaired(TWO, findings).done
    long = TWO + "a = 1\n" * 100
    result = repaired(long, findings)
    assert (result.text, len(result.left), result.ran_out) == (long, 2, True)
    shown = check_text("p.py", long, Project()).findings
    assert [finding.fix for finding in shown] == [None, None]


def test_a_repair_ends_where_it_takes_too_much_memory(monkeypatch):
    """Each analysis leaves two thirds of what may be taken. What was repaired could not be looked at as a whole."""
    size = [0]
    monkeypatch.setattr(project, "_memory", lambda: size[0])

    def large(path, text, elsewhere=None):
        found = findings(path, text)
        size[0] += from_source.MOST_MEMORY * 2 // 3
        return found

    result = repaired(TWO, large)
    assert (result.text, result.done, len(result.left), result.ran_out) == (TWO, (), 2, True)
