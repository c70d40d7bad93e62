"""What is run at all: every way to write is a reason, and nothing that only looks like one."""

from __future__ import annotations

import pytest

from outplace.source.candidates import Candidates

WRITES = [
    "x.add_(1)",
    "x[i] = 0",
    "self.state[i, j] = [1]",
    "x += y",
    "x <<= 1",
    "x //= f(x)",
    "nn.ReLU(inplace=True)",
    "torch.add(x, y, out=z)",
    "x.data = y",
    "opt.step()",
    "x.real = y",
    "x.register_hook(f)",
    "operator.iadd(x, y)",
    "torch._foreach_add_(xs, ys)",
    "torch.ops.aten.relu_(x)",
    "torch.ops.mine.scale(x)",
    "scale_(x)",
    "F.relu(x, True)",
    "F.leaky_relu(f(x), 0.1, True)",
    "nn.Dropout2d(0.5, True)",
]
HARMLESS = [
    "x = y[i]",
    "x: list[int] = y",
    "names += ['a']",
    "text += f'{x}'",
    "x == y",
    "x[i] == 0",
    "x <= y",
    "f(layout=1)",
    "nn.LSTM(3, True)",
    "__init__()",
    "_('text')",
    "print(scale_)",
]


@pytest.mark.parametrize("line", WRITES)
def test_a_write_is_found_on_its_lines(line: str) -> None:
    candidates = Candidates(f"def before():\n    pass\ndef writes():\n    {line}\ndef after():\n    pass\n")
    assert candidates.worth_checking()
    assert [candidates.writes(first, first + 1) for first in (1, 3, 5)] == [False, True, False]


@pytest.mark.parametrize("line", HARMLESS)
def test_what_is_no_write(line: str) -> None:
    assert not Candidates(f"def f():\n    {line}\n").worth_checking()


STATEMENTS = ["x[\n    i\n] = 0", "x[0,\n  i] = 0", "x[0] \\\n  = 0", "F.relu(\n    x,\n    True\n)"]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_of_several_lines(statement: str) -> None:
    count = statement.count("\n") + 1
    candidates = Candidates(f"first\n{statement}\nlast\n")
    assert candidates.writes(2, count + 1)
    assert not candidates.writes(1, 1)
    assert not candidates.writes(count + 2, count + 2)


def test_modules_that_are_built_to_write() -> None:
    candidates = Candidates("class A:\n    act = Act(inplace=flag)\nclass B:\n    act = Act()\n")
    assert candidates.builds_writers(1, 2)
    assert not candidates.builds_writers(3, 4)
    assert not candidates.writes(1, 4)
