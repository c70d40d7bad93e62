"""The recipes of CONTRIBUTING.md are true."""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from outplace.checking.config import FORMATS
from outplace.checking.outcome import Result
from outplace.knowledge import errors
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
    named = re.findall(r"`((?:src|docs|tests|tools|editors)/[^`\s]*|constraints\.txt)`", RECIPES)
    assert len(named) > 12
    assert [name for name in named if "NAME" not in name and not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", ["docs/check.md", "docs/ja/check.md"])
def test_every_output_format_has_its_row(page):
    rows = set(re.findall(r"^\| `([a-z]+)` \|", (ROOT / page).read_text("utf-8"), re.MULTILINE))
    missing = set(FORMATS) - rows
    assert not missing, f"add a row for {sorted(missing)} to the table of formats in {page}"


def test_every_output_format_is_in_the_schema_for_editors():
    schema = json.loads((ROOT / "editors" / "outplace.schema.json").read_text("utf-8"))
    known = schema["properties"]["output-format"]["enum"]
    assert known == list(FORMATS), "write the names of FORMATS into output-format in editors/outplace.schema.json"


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


def test_a_call_in_the_samples_makes_an_operation(monkeypatch):
    """Step 1 of the third recipe, with an operation that is made up: what it keeps is measured."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("numpy")
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    generator = importlib.import_module("generate_op_table")
    sample = importlib.import_module("op_table_measure").Sample
    given = {"input": torch.rand(3)}
    calls = {
        "squared": sample(lambda tensors: tensors["input"] * tensors["input"], dict(given), {}),
        "shifted": sample(lambda tensors: tensors["input"] + 1, dict(given), {}),
    }
    monkeypatch.setattr(generator, "op_db", list)  # none of torch's own
    monkeypatch.setattr(generator, "extra_samples", lambda: [(name, ["input"], call) for name, call in calls.items()])
    entries, _ = generator.database()
    assert entries["squared"]["saves"] == {"input": True}
    assert "saves" not in entries["shifted"]


def test_what_is_added_by_hand_is_read():
    """Step 2: each list of names in by_hand.py says what it is for, and another module reads it."""
    text = (ROOT / "src/outplace/knowledge/by_hand.py").read_text("utf-8")
    names = re.findall(r"^([A-Z_]+)(?:: [^=]+)? = ", text, re.MULTILINE)
    modules = [path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py") if path.name != "by_hand.py"]
    assert len(names) > 8
    assert [name for name in names if not any(re.search(rf"\b{name}\b", module) for module in modules)] == []


def test_the_pinned_torch_is_the_one_that_the_table_was_made_with():
    """Steps 1 and 2 of the last recipe belong together."""
    pinned = re.search(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)[1]
    measured = json.loads((ROOT / "src/outplace/knowledge/op_table.json").read_text("utf-8"))["torch"]
    assert pinned == measured, "run tools/generate_op_table.py after a change of torch in constraints.txt"


def test_a_message_that_is_added_to_the_catalogue_is_recognised(monkeypatch):
    """Step 3."""
    message = "a message that no torch has raised so far"
    assert errors.recognise(message) is None
    new = dataclasses.replace(errors.ENTRIES[0], name="made-up", pattern="no torch has raised so far")
    monkeypatch.setattr(errors, "ENTRIES", (*errors.ENTRIES, new))
    assert errors.recognise(f"RuntimeError: {message}").entry.name == "made-up"


def test_the_tool_for_the_tests_of_a_change_runs():
    done = subprocess.run([sys.executable, "tools/quick_tests.py"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "tests/test_house.py" in done.stdout.splitlines()
