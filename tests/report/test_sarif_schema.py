"""The SARIF log of a real check against the official JSON schema of SARIF 2.1.0, which `make test` fetches."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

SCHEMA = Path(sys.prefix, "share", "sarif-schema-2.1.0.json")
if not SCHEMA.exists():
    pytest.skip(f"no {SCHEMA.name}: tools/sarif_schema.py could not fetch it", allow_module_level=True)

SOURCE = """\
import torch

w = torch.ones(3, requires_grad=True)
y = w.exp()
y += 1
y.sum().backward()
w += 1
"""


@pytest.fixture(scope="module")
def faults():
    """What is wrong with a log, by the schema: where it is, and the keyword it breaks."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert "Version 2.1.0" in schema["title"]
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return lambda log: sorted((error.json_path, error.validator) for error in kind(schema).iter_errors(log))


def check(folder, *options):
    command = [sys.executable, "-m", "outplace", "check", "--no-cache", "--output-format", "sarif", *options, "."]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sarif")
    (folder / "a b ü.py").write_text(SOURCE, encoding="utf-8")
    (folder / "bad.py").write_text("import torch\nx += = 1\n")
    (folder / "book.ipynb").write_text(json.dumps({"cells": [{"cell_type": "code", "source": SOURCE}]}))
    done = check(folder)
    assert done.returncode == 1, done.stderr
    return json.loads(done.stdout)


def test_findings_fixes_notebooks_and_failures(log, faults):
    (run,) = log["runs"]
    assert len(run["results"]) == 4
    assert len(run["invocations"][0]["toolExecutionNotifications"]) == 1
    assert faults(log) == []


def test_nothing_found(tmp_path, faults):
    (tmp_path / "fine.py").write_text("import torch\n")
    done = check(tmp_path)
    assert done.returncode == 0, done.stderr
    assert faults(json.loads(done.stdout)) == []


def test_the_schema_sees_faults(log, faults):
    """So that the tests above could fail."""
    wrong = copy.deepcopy(log)
    (run,) = wrong["runs"]
    run["results"][0]["levle"] = run["results"][0].pop("level")
    run["results"][1]["level"] = "fatal"
    del run["results"][2]["message"]
    run["results"][3]["locations"][0]["physicalLocation"]["region"] = {"startLine": 0}
    run["tool"]["driver"]["rules"][0]["help"] = ["text"]
    assert faults(wrong) == [
        ("$.runs[0].results[0]", "additionalProperties"),
        ("$.runs[0].results[1].level", "enum"),
        ("$.runs[0].results[2]", "required"),
        ("$.runs[0].results[3].locations[0].physicalLocation.region.startLine", "minimum"),
        ("$.runs[0].tool.driver.rules[0].help", "type"),
    ]
