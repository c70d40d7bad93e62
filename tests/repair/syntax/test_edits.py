"""Text edits."""

from __future__ import annotations

import random
import shutil
import subprocess
import time

import pytest

from outplace.repair.syntax.edits import Conflict, Edit, apply, parses, unified_diff


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


@pytest.mark.skipif(shutil.which("patch") is None, reason="there is no patch")
@pytest.mark.parametrize("seed", range(40))
def test_patch_takes_the_diff(seed, tmp_path):
    draw = random.Random(seed)
    old = draw.choices(["a", "b", "", " x"], k=draw.randrange(60))
    new = list(old)
    for _ in range(draw.randrange(4)):
        at = draw.randrange(len(new) + 1)
        new[at : at + draw.randrange(2)] = draw.choice([[], ["new"], ["two", "lines"]])
    before, after = ("\n".join(lines) + draw.choice(["", "\n"]) for lines in (old, new))
    diff = unified_diff("f.py", before, after)
    (tmp_path / "f.py").write_text(before)
    done = subprocess.run(["patch", "-p1"], cwd=tmp_path, input=diff, text=True, capture_output=True, check=False)
    made = (tmp_path / "f.py").read_text() if (tmp_path / "f.py").exists() else ""  # it removes empty files
    assert made == after and (before == after) == (diff == ""), done.stdout
    assert "offset" not in done.stdout and "fuzz" not in done.stdout


def test_the_diff_of_a_long_file_with_equal_lines_is_short():
    """`difflib` alone takes lines that occur often for different ones."""
    before = "# the same\n" * 100_000 + "x += 1\n" + "# the same\n" * 100_000
    start = time.thread_time()
    diff = unified_diff("f.py", before, before.replace("x += 1", "x = x + 1"), context=1)
    assert time.thread_time() - start < 2
    assert diff.splitlines()[2:] == [
        "@@ -100000,3 +100000,3 @@",
        " # the same",
        "-x += 1",
        "+x = x + 1",
        " # the same",
    ]
