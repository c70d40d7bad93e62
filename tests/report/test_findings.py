"""Findings in every format, from findings that are made up."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from outplace.checking.outcome import Failure, Note, Result
from outplace.knowledge.kinds import KINDS
from outplace.model import Finding, Fix, Site
from outplace.report.findings import render, statistics, summary

MODEL = """\
import torch
from lib import scale


class Net:
    def forward(self, x):
        y = torch.sigmoid(x)
        y[:, 0] = (
            3
        )
        return scale(y)
"""
LIB = """\
def scale(y):
    z = y.exp()
    z *= 2
    return z
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src dir").mkdir()
    (tmp_path / "src dir" / "model.py").write_text(MODEL)
    (tmp_path / "lib.py").write_text(LIB)
    return tmp_path


def site(file, line, column, end_column, text, function="", end_line=None):
    return Site(os.path.abspath(file), line, end_line or line, column, end_column, function, text)


def saved():
    return site("src dir/model.py", 7, 12, 28, "torch.sigmoid(x)", "Net.forward")


def assigned(**changes):
    spot = site("src dir/model.py", 8, 8, 9, "y[:, 0] = (\n            3\n        )", "Net.forward", 10)
    made = Finding("saved", "OUT201", "error", spot, "item assignment overwrites y: sigmoid keeps its result", saved())
    return replace(made, **changes)


def across():
    spot = site("lib.py", 3, 4, 10, "z *= 2", "scale")
    fix = Fix("write z = z * 2", "safe", "--- a/lib.py\n+++ b/lib.py\n@@ -3 +3 @@\n-    z *= 2\n+    z = z * 2\n")
    return Finding("silent-data", "OUT301", "warning", spot, "100% odd:\nz, [x] is changed", saved(), fix)


def leaf():
    return Finding("leaf", "OUT101", "error", site("lib.py", 1, 0, 13, "def scale(y):"), "w is a leaf")


def result(*findings, failures=(), left_out=()):
    return Result(list(findings), list(failures), list(left_out))


def cut():
    return Note(os.path.abspath("lib.py"), "takes too long", None, True)


def broken(line=3):
    return Failure(os.path.abspath("bad.py"), "SyntaxError: invalid syntax", line)


class TestText:
    def test_a_finding_within_one_function(self):
        assert render(result(assigned()), "text").splitlines() == [
            "OUT201 saved [error]: item assignment overwrites y: sigmoid keeps its result",
            "  src dir/model.py:8:9 in Net.forward",
            "  6 │ def forward(self, x):",
            "  7 │     y = torch.sigmoid(x)",
            "    │         ──────────────── saved here",
            "  8 │     y[:, 0] = (",
            "    │     ^^^^^^^^^^^ overwritten here (to line 10)",
            "  9 │         3",
            "",
            "Found 1 error in 1 file.",
            "More: outplace explain OUT201",
        ]

    def test_a_finding_across_files_begins_with_the_line_that_writes(self):
        lines = render(result(across()), "text").splitlines()
        assert lines[0] == "OUT301 silent-data [warning]: 100% odd: z, [x] is changed"
        assert lines[1] == "  lib.py:3:5 in scale"
        assert lines.index("  src dir/model.py:7:13 in Net.forward") > 3
        assert "  fix   write z = z * 2 (safe)" in lines
        assert "        3 + z = z * 2" in lines

    def test_words_for_other_kinds(self):
        assert "refused here" in render(result(leaf()), "text")
        assert "updated here" in render(result(assigned(kind="stepped", code="OUT202")), "text")
        assert "made here" in render(result(assigned(kind="multi-view", code="OUT103")), "text")

    def test_the_end(self):
        both = render(result(assigned(), across(), failures=[broken()]), "text").splitlines()
        assert both[-4:] == [
            "bad.py:3: SyntaxError: invalid syntax",
            "",
            "Found 1 error and 1 warning in 2 files. 1 file could not be checked.",
            "More: outplace explain CODE",
        ]
        assert render(result(failures=[broken(None)]), "text").splitlines() == [
            "bad.py: SyntaxError: invalid syntax",
            "",
            "1 file could not be checked.",
        ]
        assert render(result(), "text", quiet=True) == ""

    def test_narrow_terminals(self, monkeypatch):
        monkeypatch.setenv("COLUMNS", "40")
        assert max(map(len, render(result(assigned(), across()), "text").splitlines())) <= 40

    def test_a_file_that_is_gone(self, folder):
        gone = replace(leaf(), site=replace(leaf().site, file="/gone.py"))
        assert "1 │ def scale(y):" in render(result(gone), "text")

    def test_thousands_in_one_file(self):
        """The first are shown in full; another file has its own."""
        shown = render(result(*[assigned()] * 502, across()), "text").splitlines()
        assert sum("saved here" in line for line in shown) == 500 + 1
        short = [line for line in shown if line.startswith("src dir/model.py:8:9: OUT201 [error] item assignment")]
        assert len(short) == 2 and "(saved at src dir/model.py:7)" in short[0]
        assert "Found 502 errors and 1 warning in 2 files." in shown


def test_concise():
    assert render(result(assigned(), across(), leaf(), failures=[broken()]), "concise").splitlines() == [
        "src dir/model.py:8:9: OUT201 [error] item assignment overwrites y: sigmoid keeps its result"
        " (saved at src dir/model.py:7)",
        "lib.py:3:5: OUT301 [warning] 100% odd: z, [x] is changed (saved at src dir/model.py:7)",
        "lib.py:1:1: OUT101 [error] w is a leaf",
        "bad.py:3: SyntaxError: invalid syntax",
        "Found 2 errors and 1 warning in 2 files. 1 file could not be checked.",
    ]


def test_the_cells_of_a_notebook_are_one_file():
    cells = [replace(saved(), file=os.path.abspath(f"n.ipynb:cell {cell}")) for cell in (2, 4)]
    assert summary.text(result(*(assigned(site=cell) for cell in cells))) == "Found 2 errors in 1 file."


def test_json_has_the_fields_of_the_contract_and_no_failures():
    first, second, third = json.loads(render(result(assigned(), across(), leaf(), failures=[broken()]), "json"))
    assert list(first) == [
        *("kind", "code", "rule", "severity", "file", "line", "end_line", "column", "end_column"),
        *("message", "saved_by", "fix"),
    ]
    assert (first["line"], first["end_line"], first["column"], first["fix"]) == (8, 10, 8, None)
    assert list(first["saved_by"]) == ["file", "line", "end_line", "column", "end_column", "function", "text"]
    assert second["fix"] == {"title": "write z = z * 2", "safety": "safe"}
    assert second["saved_by"]["file"] == "src dir/model.py"
    assert third["saved_by"] is None


def test_json_notes_a_file_that_was_not_checked_to_its_end():
    finding, note = json.loads(render(result(leaf(), left_out=[cut()]), "json"))
    assert list(note) == list(finding)  # a tool that reads the fields of a finding does not fail
    assert (note["kind"], note["severity"], note["code"], note["file"]) == ("note", "note", "", "lib.py")
    assert (note["line"], note["message"], note["fix"]) == (1, "takes too long", None)


def test_the_last_line_does_not_say_that_all_is_well_where_not_all_was_checked():
    assert summary.text(result(left_out=[cut()])) == "1 file not checked to the end."
    assert summary.text(result(leaf(), left_out=[cut()])) == "Found 1 error in 1 file. 1 file not checked to the end."


def test_files_elsewhere_keep_their_whole_path():
    elsewhere = replace(leaf(), site=replace(leaf().site, file="/else/where.py"))
    assert json.loads(render(result(elsewhere), "json"))[0]["file"] == "/else/where.py"
    assert render(result(elsewhere), "concise").startswith("/else/where.py:1:1: ")


def test_github_escapes_what_would_end_a_command():
    odd = replace(leaf(), site=replace(leaf().site, file=os.path.abspath("a,b:c%.py")), message="50%\nx")
    lines = render(result(across(), odd, assigned(), failures=[broken()]), "github").splitlines()
    assert lines[0].startswith(
        "::warning title=outplace (OUT301),file=lib.py,line=3,endLine=3,col=5,endColumn=11::"
        "lib.py:3:5: OUT301 [warning] 100%25 odd: z, [x] is changed"
    )
    assert "file=a%2Cb%3Ac%25.py," in lines[1]
    assert lines[1].endswith("::a,b:c%25.py:1:1: OUT101 [error] 50%25 x")
    assert "line=8,endLine=10::" in lines[2]  # GitHub takes no columns across lines
    assert lines[3] == "::error title=outplace,file=bad.py,line=3::bad.py:3: SyntaxError: invalid syntax"
    assert len(lines) == 4
    assert render(result(left_out=[cut()]), "github") == "::notice title=outplace,file=lib.py::lib.py: takes too long\n"


def test_statistics():
    counted = result(leaf(), assigned(), across(), assigned())
    assert [line.split()[:3] for line in statistics(counted, "text").splitlines()] == [
        ["2", "OUT201", "saved"],
        ["1", "OUT101", "leaf"],
        ["1", "OUT301", "silent-data"],
    ]
    assert [entry["count"] for entry in json.loads(statistics(counted, "json"))] == [2, 1, 1]
    assert statistics(result(), "text") == ""


def junit(*findings, **more):
    return ElementTree.fromstring(render(result(*findings, **more), "junit").encode())


class TestJunit:
    def test_a_finding_is_a_failed_test(self):
        root = junit(assigned(), across(), leaf())
        assert (root.tag, root.get("tests"), root.get("failures"), root.get("errors")) == ("testsuites", "3", "3", "0")
        assert sum(int(suite.get("failures")) for suite in root) == len(root.findall("*/testcase")) == 3
        case = root.find("testsuite/testcase")
        assert (case.get("classname"), case.get("line")) == ("src dir/model.py", "8")
        failure = case.find("failure")
        assert (failure.get("type"), failure.get("message")) == ("error", assigned().message)
        assert failure.text.startswith("src dir/model.py:8:9: OUT201 [error] ")

    def test_a_file_that_could_not_be_checked_is_an_error(self):
        root = junit(failures=[Failure(os.path.abspath("bad.py"), "SyntaxError: <x> & 'y'", 3)])
        assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("1", "0", "1")
        assert root.find("testsuite/testcase/error").text == "bad.py:3: SyntaxError: <x> & 'y'"
        root = junit(left_out=[cut()])
        assert (root.get("skipped"), root.find("testsuite/testcase/skipped").text) == ("1", "lib.py: takes too long")

    def test_nothing_found_is_a_test_that_passes(self):
        (case,) = junit().findall("testsuite/testcase")
        assert list(case) == []

    def test_any_name_makes_valid_xml(self):
        odd = site('a"<&>\x01\n\udcff.py', 1, 0, 1, "x")
        (case,) = junit(assigned(site=odd)).findall("testsuite/testcase")
        assert case.get("classname") == 'a"<&>\\x01\n\\xdcff.py'


class TestGitlab:
    def issues(self, *findings, **more):
        return json.loads(render(result(*findings, **more), "gitlab"))

    def test_an_issue_has_what_gitlab_asks_for(self):
        """https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format"""
        issues = self.issues(
            assigned(), across(), leaf(), failures=[Failure(os.path.abspath("bad.py"), "SyntaxError: no", 3)]
        )
        for issue in issues:
            assert {"description", "check_name", "fingerprint", "location", "severity"} <= issue.keys()
            assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
            assert issue["location"]["lines"]["begin"] >= 1
            assert not issue["location"]["path"].startswith(("/", "./"))
        assert len({issue["fingerprint"] for issue in issues}) == 4
        assert [issue["severity"] for issue in issues] == ["major", "minor", "major", "critical"]
        assert issues[0]["location"] == {"path": "src dir/model.py", "lines": {"begin": 8, "end": 10}}

    def test_the_fingerprint_knows_no_line(self):
        moved = assigned(site=replace(assigned().site, line=80, end_line=82))
        assert self.issues(assigned())[0]["fingerprint"] == self.issues(moved)[0]["fingerprint"]

    def test_a_file_that_was_not_checked_to_its_end(self):
        (issue,) = self.issues(left_out=[cut()])
        assert (issue["severity"], issue["description"]) == ("info", "lib.py: takes too long")

    def test_nothing_found(self):
        assert self.issues() == []


class TestSarif:
    """What we say in it. That it is SARIF at all, test_sarif_schema.py holds."""

    def log(self, *findings, failures=()):
        return json.loads(render(result(*findings, failures=failures), "sarif"))

    def test_log_and_tool(self):
        log = self.log()
        assert (log["version"], log["$schema"].endswith("sarif-schema-2.1.0.json")) == ("2.1.0", True)  # 3.13
        (run,) = log["runs"]
        driver = run["tool"]["driver"]
        assert driver["name"] == "outplace"
        assert [rule["id"] for rule in driver["rules"]] == [kind.code for kind in KINDS]
        assert run["results"] == []  # present, so that "nothing found" is said
        assert run["invocations"] == [{"executionSuccessful": True, "toolExecutionNotifications": []}]

    def test_rules_carry_their_pages(self):
        for rule in self.log()["runs"][0]["tool"]["driver"]["rules"]:
            assert rule["help"]["markdown"].startswith(f"# {rule['id']} {rule['name']}\n")
            assert rule["help"]["text"]
            assert 0 < len(rule["fullDescription"]["text"]) <= 1024  # what GitHub shows
            assert rule["shortDescription"]["text"].endswith(".")
            assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")

    def test_results(self):
        run = self.log(assigned(), across(), leaf())["runs"][0]
        rules = run["tool"]["driver"]["rules"]
        first, second, third = run["results"]
        for found in run["results"]:
            assert rules[found["ruleIndex"]]["id"] == found["ruleId"]
            assert found["message"]["text"]
            (location,) = found["locations"]
            region = location["physicalLocation"]["region"]
            assert region["startLine"] >= 1
            assert region["startColumn"] >= 1
            assert (region["endLine"], region["endColumn"]) > (region["startLine"], region["startColumn"])
        assert (first["level"], second["level"]) == ("error", "warning")
        region = first["locations"][0]["physicalLocation"]["region"]
        assert (region["startLine"], region["startColumn"], region["endLine"], region["endColumn"]) == (8, 9, 10, 10)
        (related,) = second["relatedLocations"]
        assert related["physicalLocation"]["region"]["startLine"] == 7
        assert related["message"]["text"] == "saved for backward here"
        assert "relatedLocations" not in third
        assert second["properties"]["fix"] == {"title": "write z = z * 2", "safety": "safe"}

    def test_addresses_are_relative_to_the_repository(self, folder, monkeypatch):
        def addresses(*findings):
            found = [entry["locations"][0]["physicalLocation"] for entry in self.log(*findings)["runs"][0]["results"]]
            return [location["artifactLocation"] for location in found]

        assert addresses(assigned()) == [{"uri": "src%20dir/model.py", "uriBaseId": "%SRCROOT%"}]
        finding = assigned()
        (folder / ".git").mkdir()
        monkeypatch.chdir("src dir")
        assert addresses(finding)[0]["uri"] == "src%20dir/model.py"
        elsewhere = replace(finding, site=replace(finding.site, file="/else where/ü.py"))
        assert addresses(elsewhere) == [{"uri": "file:///else%20where/%C3%BC.py"}]
        assert "%SRCROOT%" in self.log()["runs"][0]["originalUriBaseIds"]

    def test_fingerprints_do_not_know_lines(self):
        def prints(*findings):
            results = self.log(*findings)["runs"][0]["results"]
            return [found["partialFingerprints"]["outplace/v1"] for found in results]

        moved = replace(assigned(), site=replace(assigned().site, line=80, end_line=82))
        assert prints(assigned()) == prints(moved)
        assert len(set(prints(assigned(), assigned(), across(), leaf()))) == 4
        assert all(isinstance(name, str) for name in prints(leaf()))

    def test_files_that_were_not_checked_to_their_end(self):
        log = json.loads(render(result(across(), failures=[broken()], left_out=[cut()]), "sarif"))
        (invocation,) = log["runs"][0]["invocations"]
        failure, note = invocation["toolExecutionNotifications"]
        assert invocation["executionSuccessful"] is True
        assert (failure["level"], note["level"]) == ("error", "note")
        assert note["message"]["text"] == "lib.py: takes too long"
        assert note["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "lib.py"
        assert len(log["runs"][0]["results"]) == 1

    def test_files_that_could_not_be_analysed(self):
        ours = Failure(os.path.abspath("bad.py"), "internal error", internal=True)
        (invocation,) = self.log(failures=[broken(), ours])["runs"][0]["invocations"]
        assert invocation["executionSuccessful"] is False
        told = [note["message"]["text"] for note in invocation["toolExecutionNotifications"]]
        assert told == ["bad.py:3: SyntaxError: invalid syntax", "bad.py: internal error"]
        (invocation,) = self.log(failures=[broken()])["runs"][0]["invocations"]
        assert invocation["executionSuccessful"] is True

    def test_notebooks(self):
        in_cell = replace(saved(), file=os.path.abspath("n.ipynb:cell 4"))
        log = self.log(replace(assigned(), site=in_cell, saved_by=in_cell))
        location = log["runs"][0]["results"][0]["locations"][0]
        assert location["physicalLocation"] == {"artifactLocation": {"uri": "n.ipynb", "uriBaseId": "%SRCROOT%"}}
        assert location["message"]["text"] == "(cell 4, line 7)"
        related = log["runs"][0]["results"][0]["relatedLocations"][0]
        assert related["message"]["text"] == "saved for backward here (cell 4, line 7)"
