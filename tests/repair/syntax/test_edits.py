"""Text edits."""

from __future__ import annotations

import pytest

from outplace.repair.syntax.edits import Conflict, Edit, apply, parses


def test_edits_are_sorted_and_the_rest_stays():
    assert apply("a = b  # why\n", [Edit(4, 5, "c + d"), Edit(0, 1, "x")]) == "x = c + d  # why\n"


def test_no_edit_changes_nothing():
    assert apply("x\n", []) == "x\n"


def test_the_same_edit_twice_counts_once():
    assert apply("ab", [Edit(1, 1, "-"), Edit(1, 1, "-")]) == "a-b"


@pytest.mark.parametrize(
    "edits",
    [
        [Edit(0, 3, "x"), Edit(2, 4, "y")],
        [Edit(1, 1, "x"), Edit(1, 1, "y")],
        [Edit(0, 9, "x")],
        [Edit(-1, 0, "x")],
    ],
)
def test_conflicts_are_refused(edits):
    with pytest.raises(Conflict):
        apply("abcd", edits)


def test_parses():
    assert parses("x = 1\n")
    assert not parses("x = = 1\n")
    assert not parses("\0")
