from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from outplace.checking import baseline, fingerprint
from outplace.errors import OutplaceError
from outplace.model import Finding, Site


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").touch()
    (tmp_path / "b.py").touch()


def finding(file="a.py", line=3, text="x += 1", function="f", code="OUT201"):
    site = Site(os.path.abspath(file), line, line, 4, 10, function, text)
    return Finding("saved", code, "error", site, "message")


def known(*findings):
    baseline.write("base.json", findings)
    return baseline.Baseline("base.json")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x += 1", "x  +=  1  # more"),
        ("x[0] = f(a, b)", "x[0] = f(\n    a,\n    b,\n)"),
        ("x['k'] += 1", 'x["k"] += 1'),
        ("x['#'] += 1 # '", 'x["#"] += 1'),
    ],
)
def test_formatting_changes_nothing(one, other):
    assert fingerprint.statement(one) == fingerprint.statement(other)


def test_other_statements_are_others():
    assert fingerprint.statement("x += 1") != fingerprint.statement("x += 2")
    assert fingerprint.statement("x['#a'] = 1") != fingerprint.statement("x['#b'] = 1")


def test_lines_do_not_matter_and_everything_else_does():
    assert known(finding()).unknown([finding(line=99)]) == []
    for other in (finding(file="b.py"), finding(text="y += 1"), finding(function="g"), finding(code="OUT301")):
        assert known(finding()).unknown([other]) == [other]


def test_equals_are_counted():
    three = [finding(line=line) for line in (3, 5, 9)]
    base = known(*three[:2])
    assert json.loads(Path("base.json").read_text())["findings"][0]["count"] == 2
    assert base.unknown(three) == [three[2]]
    assert base.stale([os.path.abspath("a.py")], ["OUT201"]) == 0


def test_what_is_gone_is_counted_where_it_was_looked_for():
    here, there = os.path.abspath("a.py"), os.path.abspath("b.py")
    base = known(*[finding(line=line) for line in (3, 5, 9)], finding("b.py"))
    assert base.unknown([finding()]) == []
    assert base.stale([here], ["OUT201"]) == 2
    assert base.stale([here, there], ["OUT201"]) == 3
    assert base.stale([here, there], ["OUT202"]) == 0


def test_a_renamed_file_keeps_its_known_findings():
    base = known(finding("a.py"))
    os.rename("a.py", "new.py")
    moved = finding("new.py", line=7)
    assert base.unknown([moved, moved]) == [moved]  # as many as there were


def test_a_baseline_of_another_folder(tmp_path):
    os.mkdir("ci")
    baseline.write("ci/base.json", [finding()])
    entry = json.loads((tmp_path / "ci/base.json").read_text())["findings"][0]
    assert entry == {"file": "../a.py", "code": "OUT201", "function": "f", "statement": "x+=1", "count": 1}
    os.chdir("ci")
    assert baseline.Baseline("base.json").unknown([replace(finding("../a.py"), message="other")]) == []


def test_notebooks_are_known_by_file_not_by_cell():
    in_cell = finding("nb.ipynb")
    one, other = (replace(in_cell, site=replace(in_cell.site, file=f"{in_cell.site.file}:cell {n}")) for n in (2, 5))
    assert known(one).unknown([other]) == []


def test_the_file_is_the_same_for_the_same_findings():
    findings = [finding("b.py"), finding("a.py"), finding("a.py", text="y *= 2")]
    baseline.write("one.json", findings)
    baseline.write("two.json", reversed(findings))
    assert Path("one.json").read_bytes() == Path("two.json").read_bytes()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"findings": [{}]}', '{"findings": 3}', "\xff"])
def test_files_that_are_no_baseline(content):
    with open("base.json", "w", encoding="latin-1") as stream:
        stream.write(content)
    with pytest.raises(OutplaceError, match=r"base.json is not a baseline; outplace check --write-baseline makes one"):
        baseline.Baseline("base.json")


def test_places_that_cannot_be_read_or_written():
    with pytest.raises(OutplaceError, match=r"cannot read the baseline gone.json: no such file"):
        baseline.Baseline("gone.json")
    with pytest.raises(OutplaceError, match=r"cannot write the baseline to no/base.json: there is no folder no"):
        baseline.write("no/base.json", [])


def test_digests_tell_equals_apart_and_outlive_edits():
    pair = [finding(line=3), finding(line=5)]
    names = fingerprint.digests(pair, ["a.py", "a.py"])
    assert len(set(names)) == 2
    moved = [finding(line=30), finding(line=50)]
    assert fingerprint.digests(moved, ["a.py", "a.py"]) == names
