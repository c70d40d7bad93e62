"""The SARIF log of a real check against the object model that Microsoft generates from the schema of SARIF 2.1.0.

The schema itself is used where `OUTPLACE_SARIF_SCHEMA` names it (tests/report/test_findings.py); it is in no package.
"""

from __future__ import annotations

import json
import subprocess
import sys

import attr
import pytest
import sarif_om

SOURCE = """\
import torch

w = torch.ones(3, requires_grad=True)
y = w.exp()
y += 1
y.sum().backward()
w += 1
"""
# What an object in a property is. `{}` marks an object whose keys are names, such as the bases of addresses.
PARTS = {
    "runs": "Run",
    "tool": "Tool",
    "driver": "ToolComponent",
    "rules": "ReportingDescriptor",
    "defaultConfiguration": "ReportingConfiguration",
    "shortDescription": "MultiformatMessageString",
    "fullDescription": "MultiformatMessageString",
    "help": "MultiformatMessageString",
    "invocations": "Invocation",
    "toolExecutionNotifications": "Notification",
    "results": "Result",
    "message": "Message",
    "description": "Message",
    "locations": "Location",
    "relatedLocations": "Location",
    "physicalLocation": "PhysicalLocation",
    "logicalLocations": "LogicalLocation",
    "artifactLocation": "ArtifactLocation",
    "region": "Region",
    "snippet": "ArtifactContent",
    "properties": "{}",
    "partialFingerprints": "{}",
    "originalUriBaseIds": "{ArtifactLocation}",
}
LEVELS = {"none", "note", "warning", "error"}


def faults(value, model, where="log"):
    """What the model does not know, or misses, anywhere in a log."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from faults(item, model, f"{where}[{index}]")
    elif not isinstance(value, dict):
        yield f"{where} is no object"
    elif model.startswith("{"):
        for name, item in value.items() if model != "{}" else ():
            yield from faults(item, model[1:-1], f"{where}.{name}")
    else:
        fields = {one.metadata["schema_property_name"]: one for one in attr.fields(getattr(sarif_om, model))}
        for name, field in fields.items():
            if field.default is attr.NOTHING and name not in value:
                yield f"{where} has no {name}"
        for name, item in value.items():
            if name not in fields:
                yield f"{where}.{name} is no property of {model}"
            elif name in PARTS:
                yield from faults(item, PARTS[name], f"{where}.{name}")
            elif isinstance(item, dict) or (isinstance(item, list) and item and isinstance(item[0], dict)):
                yield f"{where}.{name}: this test does not know what it is"
            elif name == "level" and item not in LEVELS:
                yield f"{where}.{name}: {item}"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sarif")
    (folder / "a b.py").write_text(SOURCE)
    (folder / "bad.py").write_text("import torch\nx += = 1\n")
    cells = [{"cell_type": "code", "source": SOURCE}]
    (folder / "book.ipynb").write_text(json.dumps({"cells": cells}))
    command = [sys.executable, "-m", "outplace", "check", "--no-cache", "--output-format", "sarif", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    return json.loads(done.stdout)


def test_a_real_log_has_what_the_model_has(log):
    (run,) = log["runs"]
    assert len(run["results"]) == 4
    assert len(run["invocations"][0]["toolExecutionNotifications"]) == 1
    assert set(log) == {"$schema", "version", "runs"}
    assert list(faults(log["runs"], "Run")) == []


def test_the_model_sees_faults(log):
    """So that the test above could fail."""
    (run,) = json.loads(json.dumps(log))["runs"]
    run["results"][0]["levle"] = run["results"][0].pop("level")
    run["results"][1]["level"] = "fatal"
    del run["results"][2]["message"]
    run["tool"]["driver"]["rules"][0]["help"] = ["text"]
    told = list(faults(run, "Run"))
    assert [one.split(" ")[0] for one in told] == [
        "log.tool.driver.rules[0].help[0]",
        "log.results[0].levle",
        "log.results[1].level:",
        "log.results[2]",
    ]
