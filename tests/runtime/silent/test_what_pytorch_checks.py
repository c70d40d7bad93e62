"""The table "What PyTorch checks where" in docs/silent.md: each of its fields is tried."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
import torch._dynamo
from torch.utils.checkpoint import checkpoint

PAGE = Path(__file__).resolve().parents[3] / "docs" / "silent.md"
FUNCTIONS = {
    "`x * w`": lambda x, w: x * w,
    "`x @ w`": lambda x, w: x @ w,
    "`checkpoint(f, x, w)`": lambda x, w: checkpoint(lambda a, b: torch.tanh(a @ b), x, w, use_reentrant=False),
}


def rows() -> list[list[str]]:
    table = PAGE.read_text("utf-8").partition("<!-- checks -->")[2].partition("<!-- end of checks -->")[0]
    return [re.split(r"\s*\|\s*", line.strip("| ")) for line in table.strip().splitlines()]


def outcome(function: object, backend: str) -> str:
    """What becomes of a write to an input between forward and backward."""
    torch._dynamo.reset()
    run = function if backend == "plain" else torch.compile(function, backend=backend.strip("`"))
    x, w = torch.rand(3, 3), torch.rand(3, 3, requires_grad=True)
    run(x, w).sum().backward()
    right, w.grad = w.grad, None
    result = run(x, w)
    x.add_(1)
    try:
        result.sum().backward()
    except RuntimeError:
        return "error"
    return "right" if torch.allclose(w.grad, right) else "**wrong**"


@pytest.mark.parametrize("row", rows()[2:], ids=lambda row: row[0])
def test_the_table_tells_what_happens(row: list[str]) -> None:
    backends = rows()[0][1:]
    assert [outcome(FUNCTIONS[row[0]], backend) for backend in backends] == row[1:]
