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


FUNCTIONS = """\
import torch


class Function(torch.autograd.Function):
    @staticmethod
    def backward(ctx, grad):
        (kept,) = ctx.saved_tensors
        return grad * kept


class Input(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x / 2


class Result(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y


class Between(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.exp())
        return x.exp()


class Shape(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 * torch.ones_like(x)


def of_input(h):
    y = Input.apply(h)  # input: saves
    h.add_(1)  # input: writes
    return y + h


def of_a_part(h):
    y = Input.apply(h[1:])  # part: saves
    h.mul_(2)  # part: writes
    return y.sum() + h


def of_result(h):
    y = Result.apply(h)  # result: saves
    y += 1  # result: writes
    return y + h


def of_another_part(h):
    y = Input.apply(h[1:])
    h[:1].add_(1)
    return y.sum() + h


def of_neither(h):
    y = Between.apply(h)
    h.add_(1)
    return y + h


def of_the_shape(h):
    y = Shape.apply(h)
    h.add_(1)
    return y + h


def before(h):
    h.add_(1)
    return Input.apply(h) + h


for function in (of_input, of_a_part, of_result, of_another_part, of_neither, of_the_shape, before):
    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        w = torch.ones(3, requires_grad=True)
        for _ in range(2):
            w.grad = None
            torch.compile(lambda w: function(w * 3), backend=backend)(w).sum().backward()
        v = torch.ones(3, dtype=torch.double)
        ends = [function((v + step) * 3).sum() for step in 1e-6 * torch.eye(3, dtype=torch.double)]
        right = (torch.stack(ends) - function(v * 3).sum()) / 1e-6
        print("OFF", function.__name__, (w.grad - right).norm().item() > 0.1)
"""


def test_a_write_below_a_function_inside_the_region_and_its_legal_twins(zygote: Zygote, tmp_path: Path):
    """The gradient is compared with differences of the function. Where it is right, nothing is told."""
    (tmp_path / "program.py").write_text(FUNCTIONS)
    done = zygote.run(tmp_path, "program.py")
    assert done.status == 0, done.output
    wrong = {name for name, off in re.findall(r"OFF (\w+) (\w+)", done.output) if off == "True"}
    assert wrong == {"of_input", "of_a_part", "of_result"}
    found, lines = done.report["diagnoses"], FUNCTIONS.splitlines()
    told = {
        tuple(
            lines[site["line"] - 1].split("# ")[-1] for site in (one["saved_by"]["site"], one["mutations"][0]["site"])
        )
        for one in found
    }
    assert [one["code"] for one in found] == ["OUT341"] * 3
    assert told == {(f"{name}: saves", f"{name}: writes") for name in ("input", "part", "result")}
