"""`outplace debug patches`: the table of everything that is changed, for people and for tools."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import forks

pytest.importorskip("torch")

HOW = {"replaced", "descriptor", "code injected", "hook registered", "callback slot", "name in builtins"}


def outplace(*words: str) -> subprocess.CompletedProcess[str]:
    return forks.python(Path(), "-m", "outplace", *words, COLUMNS="100")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    done = outplace("debug", "patches", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_each_row_says_what_how_why_and_how_it_is_undone(rows):
    for row in rows:
        assert [*row] == ["section", "target", "how", "why", "undone"]
        assert row["how"] in HOW
        assert row["why"].endswith(".") and row["undone"].endswith("."), row
        assert row["why"].count(". ") == 0, row
    places = [(row["section"], row["target"], row["why"]) for row in rows]
    assert len(set(places)) == len(places)


def test_people_see_the_same_rows(rows):
    done = outplace("debug", "patches")
    assert done.returncode == 0
    for row in rows:
        assert f"\n  {row['target']}  {row['how']}\n" in done.stdout
    assert all(len(line) <= 100 for line in done.stdout.splitlines())


def test_it_is_not_among_the_commands_of_the_help():
    assert "debug" not in outplace("--help").stdout
    assert "Look inside outplace itself." in outplace("debug", "--help").stdout
