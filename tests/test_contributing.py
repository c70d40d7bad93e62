"""The recipes of CONTRIBUTING.md are true."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from outplace.checking.config import FORMATS
from outplace.checking.outcome import Result
from outplace.knowledge.kinds import BY_CODE
from outplace.knowledge.silent_rules import RULES
from outplace.report.findings import render

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
RECIPES = PAGE.partition("## Recipes")[2].partition("\n## ")[0]


def test_there_are_four():
    assert re.findall(r"^\*\*(.+?)\*\*", RECIPES, re.MULTILINE) == [
        "Add an output format",
        "Add a silent rule",
        "Add an operation",
        "Add a torch version",
    ]


def test_every_place_that_they_name_is_there():
    named = re.findall(r"`((?:src|docs|tests|tools)/[^`\s]*|constraints\.txt)`", RECIPES)
    assert len(named) > 12
    assert [name for name in named if "NAME" not in name and not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", ["docs/check.md", "docs/ja/check.md"])
def test_every_output_format_has_its_row(page):
    rows = set(re.findall(r"^\| `([a-z]+)` \|", (ROOT / page).read_text("utf-8"), re.MULTILINE))
    missing = set(FORMATS) - rows
    assert not missing, f"add a row for {sorted(missing)} to the table of formats in {page}"


def test_a_module_and_a_name_make_an_output_format(tmp_path, monkeypatch):
    """Steps 1 and 2, with a format that is made up."""
    (tmp_path / "counted.py").write_text("def render(result):\n    return f'{len(result.findings)}\\n'\n")
    package = importlib.import_module("outplace.report.findings")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    try:
        assert render(Result(), "counted") == "0\n"
    finally:
        sys.modules.pop("outplace.report.findings.counted", None)
    for name in set(FORMATS) - {"text"}:
        assert (ROOT / f"src/outplace/report/findings/{name}.py").exists(), f"FORMATS has {name}, but it has no module"


def test_every_silent_rule_has_its_pages():
    for rule in RULES:
        for folder in ("src/outplace/knowledge/pages", "docs/ja/kinds"):
            assert (ROOT / folder / f"{rule.code}.md").exists(), f"write {folder}/{rule.code}.md"
        assert rule.code in BY_CODE


def test_the_tool_for_the_tests_of_a_change_runs():
    done = subprocess.run([sys.executable, "tools/quick_tests.py"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "tests/test_house.py" in done.stdout.splitlines()
