"""The plain rewrites, and the forms that are left alone."""

from __future__ import annotations

import ast

import pytest

from outplace.repair.plain import out_of_place


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x += 1", "x = x + 1"),
        ("x *= a + b", "x = x * (a + b)"),
        ("self.x /= n", "self.x = self.x / n"),
        ("x.mul_(2)", "x = x.mul(2)"),
        ("torch.exp(x, out=y)", "y = torch.exp(x)"),
        ("x[i] += 1", None),
        ("x.copy_(y)", None),
        ("x.zero_()", None),
        ("torch.relu_(x)", None),
        ("torch.Tensor.mul_(x, 2)", None),
        ("torch.ops.aten.add_(x, 1)", None),
        ("nn.init.zeros_(x)", None),
        ("F.relu_(x)", None),
    ],
)
def test_rewrite(source: str, expected: str | None) -> None:
    rewrite = out_of_place(ast.parse(source).body[0], source)
    assert (rewrite.text if rewrite else None) == expected
