"""Memory that a region compiled by Inductor keeps, and that is written: the hole, its legal twins, optimizers."""

from __future__ import annotations

import re
from pathlib import Path

from cases.conftest import Zygote
from cases.conftest import zygote as zygote

PROGRAM = """\
import torch

product = torch.compile(lambda x, w: x @ w)
w = torch.ones(4, 2, requires_grad=True)
table = torch.rand(6, 4)

y = product(table[:3], w)
table[3:] = 0  # other elements
y.sum().backward()
table.add_(1)  # after the backward

x = torch.rand(3, 4)
y = product(x, w)
x.clone().add_(1)  # a copy
y.sum().backward()

y = product(x, w)
x.mul_(1)  # the same values
y.sum().backward()

with torch.no_grad():
    y = product(x, w)
    x.add_(1)  # no gradients

w.grad = None
right = x.t() @ torch.ones(3, 2)
y = product(x, w)
x.add_(1)  # overwrites
y.sum().backward()
print("OFF", ((w.grad - right).norm() / right.norm()).item())

optimizer = torch.optim.SGD([w], lr=0.1)
y = product(x.requires_grad_(), w)
optimizer.step()  # steps
y.sum().backward()
"""


def line(comment: str) -> int:
    return next(number for number, text in enumerate(PROGRAM.splitlines(), 1) if text.endswith(f"# {comment}"))


def test_the_hole_of_inductor_and_its_legal_twins(zygote: Zygote, tmp_path: Path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = zygote.run(tmp_path, "program.py")
    assert done.status == 0, done.output
    found = done.report["diagnoses"]
    assert [one["code"] for one in found] == ["OUT341"] * 2
    assert [[write["site"]["line"] for write in one["mutations"]] for one in found] == [
        [line("overwrites")],
        [line("steps")],
    ]
    assert {one["saved_by"]["site"]["line"] for one in found} == {3}
    off = float(re.findall(r"OFF (\S+)", done.output)[0])
    assert off > 0.5  # the gradient is wrong, and nothing was raised
    assert f"{off:.0%}" in found[0]["notes"][0]
