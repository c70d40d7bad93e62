"""Who has kept a freed graph alive: how much is read to find out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
import torch

import outplace
from outplace.runtime.errors import freed_names

LOOP = """
import torch

w = torch.ones(2, requires_grad=True)
h, history = w * 1, []
for _ in range(2):
    {lines}
    h = torch.tanh(h * w)
    history.append(h)
    torch.stack(history).sum().backward()
    h = h.detach()
"""


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ast.AST]]:
    statements: list[ast.AST] = []
    reads = freed_names.reads
    monkeypatch.setattr(freed_names, "reads", lambda statement: [statements.append(statement), reads(statement)][1])
    yield statements


def test_each_statement_of_a_long_loop_is_read_a_few_times(read: list[ast.AST], tmp_path) -> None:
    names = [f"a{number}" for number in range(60)]
    program = tmp_path / "long_loop.py"
    program.write_text(LOOP.format(lines="\n    ".join(f"{name} = w * 2" for name in names)))
    code = compile(program.read_text(), str(program), "exec")
    with outplace.watch(), pytest.raises(RuntimeError, match="a second time") as caught:
        exec(code, {"torch": torch})
    (found,) = caught.value.outplace_diagnoses  # type: ignore[attr-defined]
    assert found.tensor.name == "history[0]"
    assert len(read) < 6 * len(names)


def test_a_weight_that_is_kept_for_all_steps() -> None:
    net = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    kept = torch.nn.utils.parametrize.cached()
    with outplace.watch(), pytest.raises(RuntimeError, match="a second time") as caught, kept:
        for _ in range(2):
            net(torch.ones(1, 2)).sum().backward()
    (found,) = caught.value.outplace_diagnoses  # type: ignore[attr-defined]
    assert found.tensor.name == "net.weight"
    assert "`parametrize.cached()` keeps net.weight" in found.why
    assert [fix.title for fix in found.fixes] == [
        "Enter `with parametrize.cached():` in every step, inside the loop: net.weight is then computed again."
    ]
