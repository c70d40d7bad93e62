"""How much is run for a check: counted, so that a busy machine changes nothing."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from outplace.source import analysis
from outplace.source.analysis import check_file
from outplace.source.graph import Hit
from outplace.source.project import Project
from outplace.source.values import Function

MOST_CALLS = 18.0
"""Python calls of the analysis for each node of the syntax trees that `ast.parse` makes."""


def test_a_check_makes_few_calls() -> None:
    files = {str(path): path.read_text() for path in sorted((Path(torch.__file__).parent / "nn/modules").glob("*.py"))}
    nodes = sum(1 for text in files.values() for _ in ast.walk(ast.parse(text)))
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    project = Project([str(Path(torch.__file__).parents[1])])
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for path, text in files.items():
            check_file(path, text, project)
    finally:
        sys.setprofile(before)
    assert calls / nodes < MOST_CALLS


CALLEE = {
    "its own": "y = x * 2\n        y += 1\n        return y",
    "a view of what it was given": "y = x.view(-1)\n        y += 1\n        return y",
    "a part of what it was given": "x[0] += 1\n        return x",
    "what the module holds": "self.state *= 2\n        return x",
}


@pytest.mark.parametrize("written", CALLEE)
def test_a_caller_is_run_if_the_callee_writes_what_it_was_given(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = f"""import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.state = torch.zeros(3)

    def shift(self, x):
        {CALLEE[written]}

    def forward(self, x):
        y = x.exp()
        return self.shift(y) * self.state
"""
    ran: list[str] = []
    run = analysis._FunctionRuns.run

    def noted(runs: analysis._FunctionRuns, function: Function, *rest: Any) -> list[Hit]:
        ran.append(function.name)
        return run(runs, function, *rest)

    monkeypatch.setattr(analysis._FunctionRuns, "run", noted)
    found = check_file("net.py", source, Project()).findings
    assert ("Net.forward" in ran) is (written != "its own")
    assert bool(found) is _raises(source)


def _raises(source: str) -> bool:
    """PyTorch's own answer."""
    names: dict[str, type[torch.nn.Module]] = {}
    exec(source, names)
    try:
        names["Net"]()(torch.ones(3, requires_grad=True)).sum().backward()
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error)
    return False
