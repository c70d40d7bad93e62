"""What torch does, and what it is seen to be, is the same with outplace: compiled, scripted, overridden, pickled."""

from __future__ import annotations

from pathlib import Path

from side_by_side import both, plain

PROGRAMS = Path(__file__).parents[1] / "programs"


def test_torch_is_what_it_was_under_outplace(tmp_path):
    expected, actual = both(tmp_path, str(PROGRAMS / "untouched.py"))
    assert expected.code == 0, expected.stderr
    assert actual.stdout.decode().splitlines() == expected.stdout.decode().splitlines()
    assert actual.stderr.startswith(expected.stderr)
    assert actual.code == 0


def test_everything_is_put_back(tmp_path):
    ending = plain(tmp_path, str(PROGRAMS / "put_back.py"))
    assert (ending.stdout, ending.code) == (b"all as before\n", 0), ending.stderr


def test_everything_that_is_changed_is_listed(tmp_path):
    ending = plain(tmp_path, str(PROGRAMS / "all_listed.py"))
    assert (ending.stdout, ending.code) == (b"all are listed\n", 0), ending.stderr
