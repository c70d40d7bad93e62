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


RELATIVES = {
    "bmm": ("torch.bmm(x, w)", (5, 4, 2)),
    "einsum": ("torch.einsum('bij,bjk->bik', x, w)", (5, 4, 2)),
    "linear": ("F.linear(x, w)", (2, 4)),
    "module": ("layer(x) + (x @ w)", (4, 2)),
}
CALL = """\
compiled = torch.compile(lambda x, w: {call})
w = torch.ones({shape}, requires_grad=True)
x = torch.rand(5, 3, 4)
right = torch.autograd.grad(compiled(x, w).sum(), w)[0]
y = compiled(x, w)
x.add_(1)  # {name}
off = (torch.autograd.grad(y.sum(), w)[0] - right).abs().max().item()
print("ANSWER", {name!r}, off > 1e-3)
"""


def test_other_operations_that_inductor_keeps_a_view_for(zygote: Zygote, tmp_path: Path):
    """PyTorch raises nothing, and its gradient is wrong: each is told, by its own lines and shape."""
    head = "import torch\nimport torch.nn.functional as F\nlayer = torch.nn.Linear(4, 2)\n"
    calls = [CALL.format(name=name, call=call, shape=shape) for name, (call, shape) in RELATIVES.items()]
    program = head + "".join(calls)
    (tmp_path / "program.py").write_text(program)
    done = zygote.run(tmp_path, "program.py")
    assert done.status == 0, done.output
    assert dict(re.findall(r"ANSWER (\w+) (\w+)", done.output)) == dict.fromkeys(RELATIVES, "True")
    found = done.report["diagnoses"]
    assert [one["code"] for one in found] == ["OUT341"] * len(RELATIVES)
    assert {tuple(one["tensor"]["shape"]) for one in found} == {(5, 3, 4)}
    lines = program.splitlines()
    written = [lines[one["mutations"][0]["site"]["line"] - 1].split("# ")[1] for one in found]
    saved = [lines[one["saved_by"]["site"]["line"] - 1] for one in found]
    assert [RELATIVES[name][0] in line for name, line in zip(written, saved, strict=True)] == [True] * len(RELATIVES)
