"""What ranks are called, and where they meet."""

from __future__ import annotations

import os

import pytest

from outplace.model import Diagnosis, Mutation, Site, Tensor
from outplace.runtime import ranks


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
    assert ranks.essence(diagnosis) != ranks.essence(other)
    known = {ranks.essence(diagnosis): [0, 1]}
    told = []
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        with ranks.telling([diagnosis], str(tmp_path), lambda: known) as mine:
            told.append([(one.kind, one.notes) for one in mine])
    assert told == [[("leaf", ("On all 2 ranks.",))], []]
    assert (
        capsys.readouterr().err == "outplace: rank 1 has the same in-place bug as rank 0, where the lines are shown.\n"
    )
    with ranks.telling([diagnosis, other], str(tmp_path), lambda: known) as mine:
        assert [one.mutations for one in mine] == [other.mutations]
        assert mine[0].notes == ("On rank 1 of 2.",)
