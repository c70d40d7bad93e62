"""How an operation is written in place, and what is left alone."""

from __future__ import annotations

import ast

import pytest

from outplace.reclaim.rules.inplace_forms import flagged, in_place
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import apply

IMPORTS = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\nfrom torch.nn.functional import relu\n"


def rewritten(line: str, operation: str, position: int | None = 0) -> str | None:
    code = Code("file.py", f"{IMPORTS}{line}\n")
    wanted = ast.BinOp if operation in ("add", "sub", "mul", "div") and "." not in line else ast.Call | ast.UnaryOp
    node = next(n for n in ast.walk(code.tree) if isinstance(n, wanted) and n.lineno == 5)
    form = in_place(code, node, operation, position)
    return None if form is None else apply(code.text, form.edits).splitlines()[4]


@pytest.mark.parametrize(
    ("line", "operation", "position", "expected"),
    [
        ("y = F.relu(x)", "relu", 0, "y = F.relu(x, inplace=True)"),
        ("y = F.relu(x, inplace=False)", "relu", 0, "y = F.relu(x, inplace=True)"),
        ("y = F.relu(x, False)", "relu", 0, None),
        ("y = F.relu(*x)", "relu", 0, None),
        ("y = F.leaky_relu(x, 0.1,)", "leaky_relu", 0, "y = F.leaky_relu(x, 0.1, inplace=True,)"),
        ("y = relu(x)", "relu", 0, "y = relu(x, inplace=True)"),
        ("y = torch.relu(x)", "relu", 0, "y = torch.relu_(x)"),
        ("y = x.masked_fill(m, 0)", "masked_fill", 0, "y = x.masked_fill_(m, 0)"),
        ("y = other.relu(x)", "sigmoid", 0, None),
        ("x = x + y", "add", 0, "x += y"),
        ("x = y + x", "add", 1, "x += y"),
        ("x = f(y) + x", "add", 1, None),
        ("x = (x + y)", "add", 0, "x = (x.add_(y))"),
        ("z = x - y", "sub", 0, "z = x.sub_(y)"),
        ("z = y - x", "sub", 1, None),
        ("z = a @ b / 2", "div", None, "z = (a @ b).div_(2)"),
        ("x = 2 * x", "mul", None, "x *= 2"),
        ("z = -(a @ b)", "neg", None, "z = (a @ b).neg_()"),
    ],
)
def test_forms(line, operation, position, expected):
    assert rewritten(line, operation, position) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("nn.ReLU()", "nn.ReLU(inplace=True)"),
        ("nn.LeakyReLU(negative_slope=0.1)", "nn.LeakyReLU(negative_slope=0.1, inplace=True)"),
        ("nn.LeakyReLU((0.1))", None),
        ("nn.ReLU(True)", None),
        ("nn.ReLU(inplace=flag)", None),
        ("nn.ReLU(**options)", None),
        ("nn.Linear(3, 4)", None),
    ],
)
def test_flags(line, expected):
    code = Code("file.py", line)
    edit = flagged(code, code.tree.body[0].value)
    assert (None if edit is None else apply(line, [edit])) == expected
