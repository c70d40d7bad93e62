from __future__ import annotations

import pytest

from outplace.checking import noqa
from outplace.model import Finding, Site


def finding(line=1, end_line=None, code="OUT201", kind="saved"):
    return Finding(kind, code, "error", Site("f.py", line, end_line or line, 0, 6, "f", "x += 1"), "message")


def off(source, **where):
    found = finding(**where)
    return noqa.unsuppressed([found], noqa.read(source, [found])) == ()


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa",
        "#noqa",
        "# NOQA",
        "# noqa: OUT201",
        "# noqa:OUT201",
        "# noqa : out201",
        "# noqa: saved",
        "# noqa: Saved",
        "# noqa: OUT2",
        "# noqa: E501, OUT201",
        "# noqa: E501 OUT201",
        "# noqa: E501,saved",
        "# noqa: saved -- on purpose",
        "# type: ignore  # noqa: OUT201",
        "# noqa: OUT201  # because",
        "# fine here, noqa: OUT999  # noqa: OUT201",
    ],
)
def test_switched_off(comment):
    assert off(f"x += 1  {comment}\n")


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa: E501",
        "# noqa: OUT202",
        "# noqa: leaf",
        "# noqa: E501 saved by the bell",  # after a blank only codes are rules
        "# noqable",
        "# no qa",
        "",
    ],
)
def test_not_switched_off(comment):
    assert not off(f"x += 1  {comment}\n")


def test_only_real_comments_count():
    assert not off('x += "# noqa"\n')
    assert not off('"""\n# outplace: noqa\n"""\nx += 1\n', line=4)


def test_the_first_and_the_last_line_of_a_statement():
    source = "x[\n  0  # noqa\n] += 1  # noqa: saved\n"
    assert off(source, line=1, end_line=3)
    assert not off("x[\n  0  # noqa\n] += 1\n", line=1, end_line=3)
    assert off("x[  # noqa\n  0\n] += 1\n", line=1, end_line=3)


def test_whole_files():
    assert off("import torch\nx += 1\n# outplace: noqa\n", line=2)
    assert off("# outplace: noqa: saved, OUT3\nx += 1\n", line=2)
    assert off("#outplace:noqa:OUT3\nx += 1\n", line=2, code="OUT302")
    assert not off("# outplace: noqa: OUT3\nx += 1\n", line=2)
    assert not off("# see outplace: noqa\nx += 1\n", line=2)
    assert not off("# ruff: noqa\nx += 1\n", line=2)


def test_rules_that_do_not_exist_are_told():
    read = noqa.read("y = 1  # noqa: OUT999, E501, saved\nx = 1  # noqa: out88\n", [])
    assert read.unknown == [(1, "OUT999"), (2, "out88")]


def test_comments_for_other_linters_cost_nothing(monkeypatch):
    monkeypatch.setattr(noqa, "_comments", None)  # reading them would fail
    source = "import os  # noqa: F401\nx += 1\n"
    assert noqa.read(source, [finding(line=2)]) == noqa.Noqa()


def test_source_that_no_tokenizer_accepts():
    assert off("x += 1  # noqa\n'''")
