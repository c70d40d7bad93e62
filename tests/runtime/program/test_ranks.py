"""What ranks are called, and where they meet."""

from __future__ import annotations

import os

import pytest

from outplace.model import Diagnosis, Mutation, Site, Tensor
from outplace.runtime.program import ranks


@pytest.mark.parametrize(
    ("numbers", "size", "words"),
    [
        ([0, 1, 2, 3], 4, "On all 4 ranks."),
        ([2], 4, "On rank 2 of 4."),
        ([1, 0, 2, 5], 8, "On ranks 0-2, 5 of 8."),
        ([0, 2, 4, 6], 8, "On ranks 0, 2, 4, 6 of 8."),
    ],
)
def test_ranks_in_words(numbers, size, words):
    assert ranks.in_words(numbers, size) == words


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"RANK": "0"}, False),
        ({"RANK": "0", "WORLD_SIZE": "1"}, False),
        ({"RANK": "1", "WORLD_SIZE": "2"}, True),
        ({"RANK": "one", "WORLD_SIZE": "2"}, False),
    ],
)
def test_who_is_a_rank(monkeypatch, environment, expected):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert ranks.launched() is expected
    assert ranks.rank() == (int(environment["RANK"]) if expected else None)


def test_ranks_meet_in_one_folder_that_is_theirs_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(ranks.tempfile, "tempdir", str(tmp_path))
    folder = ranks.meeting_place()
    assert ranks.meeting_place() == folder
    assert os.stat(folder).st_mode & 0o777 == 0o700
    monkeypatch.setenv("MASTER_PORT", "29501")  # another program with the same launcher
    assert ranks.meeting_place() != folder
    os.chmod(folder, 0o777)  # whoever made it, others can write there
    monkeypatch.delenv("MASTER_PORT")
    assert ranks.meeting_place() != folder


def test_a_bug_is_told_once(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(ranks, "PATIENCE", 0.05)
    monkeypatch.setenv("WORLD_SIZE", "2")
    diagnosis = Diagnosis("leaf", "OUT101", "error", Tensor("w"), "why")
    site = Site("train.py", 3, 3, 0, 5, "f", "x += 1")
    other = Diagnosis("leaf", "OUT101", "error", Tensor("w"), "why", mutations=(Mutation("__iadd__", site),))
    assert ranks.bug_id(diagnosis) != ranks.bug_id(other)
    known = {ranks.bug_id(diagnosis): [0, 1]}
    told = []
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        with ranks.diagnoses_to_show([diagnosis], str(tmp_path), lambda: known) as mine:
            told.append([(one.kind, one.notes) for one in mine])
    assert told == [[("leaf", ("On all 2 ranks.",))], []]
    assert (
        capsys.readouterr().err == "outplace: rank 1 has the same in-place bug as rank 0, where the lines are shown.\n"
    )
    with ranks.diagnoses_to_show([diagnosis, other], str(tmp_path), lambda: known) as mine:
        assert [one.mutations for one in mine] == [other.mutations]
        assert mine[0].notes == ("On rank 1 of 2.",)


class Machine:
    """A clock, and what the other rank does while it goes."""

    def __init__(self, monkeypatch, folder, state, share):
        self.now, self.state, self.share = 0.0, state, share
        for name, value in {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "2"}.items():
            monkeypatch.setenv(name, value)
        (folder / "4.rank").write_text("12345")
        monkeypatch.setattr(ranks.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(ranks.time, "sleep", self.sleep)
        monkeypatch.setattr(ranks.glob, "glob", lambda pattern: [pattern] if self.state else [])
        monkeypatch.setattr(ranks, "_facts", lambda path: self.facts() if path.startswith("/proc/12345/") else [])

    def sleep(self, seconds):
        self.now += seconds

    def facts(self):
        ticks = int(self.now * self.share * os.sysconf("SC_CLK_TCK"))
        return [self.state, *["0"] * 10, str(ticks), "0"] if self.state else []

    def waits(self, folder, known):
        """How long rank 5 waits for rank 4 before it tells, and which ranks it then names."""
        began = self.now
        diagnosis = Diagnosis("leaf", "OUT101", "error", Tensor("w"), "why")
        with ranks.diagnoses_to_show([diagnosis], str(folder), lambda: {ranks.bug_id(diagnosis): known(self.now)}) as (
            one,
        ):
            return round(self.now - began, 1), one.notes[0]


@pytest.mark.parametrize(
    ("state", "share", "seconds"),
    [
        ("S", 0, ranks.QUIET),  # it waits for us in a collective
        ("R", 1, ranks.PATIENCE + ranks.QUIET),  # it trains on
        ("R", 0.1, 10 * ranks.PATIENCE + ranks.QUIET),  # it gets a tenth of a processor
        ("", 0, 0),  # it has come to its end
        ("Z", 0, 0),
    ],
)
def test_how_long_a_rank_without_the_bug_is_waited_for(monkeypatch, tmp_path, state, share, seconds):
    if not os.path.isdir("/proc/self"):
        pytest.skip("the state of other processes is read from /proc")
    machine = Machine(monkeypatch, tmp_path, state, share)
    waited, note = machine.waits(tmp_path, lambda now: [5])
    assert (waited, note) == (pytest.approx(seconds, abs=0.21), "On rank 5 of 8.")


def test_a_rank_that_is_slow_to_fail_is_waited_for(monkeypatch, tmp_path):
    machine = Machine(monkeypatch, tmp_path, "R", 0.01)
    assert machine.waits(tmp_path, lambda now: [4, 5] if now >= 60 else [5]) == (60.0, "On ranks 4-5 of 8.")


def test_only_the_first_process_of_a_rank_is_known_to_others(monkeypatch, tmp_path):
    monkeypatch.setenv("RANK", "3")
    ranks.join(str(tmp_path))
    monkeypatch.setattr(ranks.os, "getpid", lambda: 1)  # a worker of its data loader
    ranks.join(str(tmp_path))
    known = (tmp_path / "3.rank").read_text()
    monkeypatch.undo()
    assert known == (str(os.getpid()) if os.path.isdir("/proc/self") else "1")
