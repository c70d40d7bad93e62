"""The table "What PyTorch checks where" in docs/silent.md: each of its fields is tried, with and without outplace."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
import torch
import torch._dynamo
import torch.nn.functional
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import outplace

PAGE = Path(__file__).resolve().parents[3] / "docs" / "silent.md"


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad @ w.t(), x.t() @ grad


@torch.library.custom_op("outplace_checks::add_one_", mutates_args={"x"})
def add_one_(x: torch.Tensor) -> None:
    x.add_(1)


@torch.library.custom_op("outplace_checks::sneak", mutates_args=())
def sneak(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x.sum()


@sneak.register_fake
def _(x):
    return x.new_empty(())


def policy(ctx, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if op == torch.ops.aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE


CONTEXTS = functools.partial(create_selective_checkpoint_contexts, policy)
LINEAR = torch.nn.Linear(3, 3, bias=False)


def writes_input(x, y):
    x.add_(1)


def writes_result(x, y):
    y.mul_(2)


def writes_data(x, y):
    x.data.add_(1)


def calls_operator(x, y):
    add_one_(x)


def writes_nothing(x, y):
    """The function itself writes."""


def overwrites_what_it_keeps(x, w):
    copy = x.clone()
    y = Product.apply(copy, w)
    copy.add_(1)
    return y


FUNCTIONS = {
    "`x * w`": (lambda x, w: x * w, writes_input),
    "`x @ w`": (lambda x, w: x @ w, writes_input),
    "`conv1d(x, w)`": (lambda x, w: torch.nn.functional.conv1d(x[None], w[:, :, None]), writes_input),
    "`F.apply(x, w)`": (lambda x, w: Product.apply(x, w), writes_input),
    "`F.apply(x, w)`, and a write to `x` below it in the function": (overwrites_what_it_keeps, writes_nothing),
    "`(x @ w).view(9)`, its result is written": (lambda x, w: (x @ w).view(9), writes_result),
    "`(x @ w).tanh().view(9)`, its result is written": (lambda x, w: (x @ w).tanh().view(9), writes_result),
    "`checkpoint(f, x, w)`": (
        lambda x, w: checkpoint(lambda a, b: torch.tanh(a @ b), x, w, use_reentrant=False),
        writes_input,
    ),
    "`checkpoint` with a policy that saves `x @ w`": (
        lambda x, w: checkpoint(lambda a, b: a @ b, x, w, use_reentrant=False, context_fn=CONTEXTS),
        writes_input,
    ),
    "`vmap(lambda row: row @ w)(x)`": (lambda x, w: torch.vmap(lambda row: row @ w)(x), writes_input),
    '`torch.func.functional_call(linear, {"weight": w}, x)`': (
        lambda x, w: torch.func.functional_call(LINEAR, {"weight": w}, x),
        writes_input,
    ),
    "`x @ w`, then an operator with `mutates_args` writes `x`": (lambda x, w: x @ w, calls_operator),
    "`x @ w`, inside it an operator without `mutates_args` writes `x`": (
        lambda x, w: (x @ w) + 0 * sneak(x),
        writes_nothing,
    ),
    "`x @ w`, then `x.data.add_(1)`": (lambda x, w: x @ w, writes_data),
}
PULLED = {
    "`torch.func.vjp(f, x)` of `x @ x`": (lambda x: x @ x, writes_input),
    "`torch.func.vjp(f, x)` of `x.exp()`, its result is written": (lambda x: x.exp(), writes_result),
}


def rows() -> list[list[str]]:
    table = PAGE.read_text("utf-8").partition("<!-- checks -->")[2].partition("<!-- end of checks -->")[0]
    return [re.split(r"\s*\|\s*", line.strip("| ")) for line in table.strip().splitlines()]


def here(field: str) -> str:
    """What a field says of the installed torch: `right; 2.15: **wrong**` is wrong from 2.15 on."""
    first, *later = field.split("; ")
    installed = tuple(map(int, torch.__version__.split(".")[:2]))
    changes = (change.split(": ") for change in later)
    said = [outcome for version, outcome in changes if tuple(map(int, version.split("."))) <= installed]
    return said[-1] if said else first


def compiled(function, backend):
    torch._dynamo.reset()
    return function if backend == "plain" else torch.compile(function, backend=backend.strip("`"))


def outcome(name: str, backend: str) -> str:
    """What becomes of the write between forward and backward."""
    torch.manual_seed(0)
    if name in PULLED:
        return pulled(compiled(PULLED[name][0], backend), PULLED[name][1])
    function, write = FUNCTIONS[name]
    run = compiled(function, backend)
    x, w = torch.rand(3, 3), torch.rand(3, 3, requires_grad=True)
    right = slope(function, x, w) * (2 if write is writes_result else 1)
    result = run(x, w)
    write(x, result)
    try:
        result.sum().backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
        return "error"
    return "right" if torch.allclose(w.grad, right, atol=1e-4) else "**wrong**"


def slope(function, x, w):
    """The gradient of the sum by numerical differentiation."""
    found = []
    with torch.no_grad():
        for place in range(w.numel()):
            step = torch.zeros(w.numel(), dtype=torch.double)
            step[place] = 1e-5
            here = [w.double() + sign * step.view_as(w) for sign in (1, -1)]
            above, below = (function(x.double(), moved).sum() for moved in here)
            found.append((above - below) / 2e-5)
    return torch.stack(found).view_as(w).float()


def pulled(function, write) -> str:
    x, v = torch.rand(3, 3), torch.ones(3, 3)
    right = torch.func.vjp(function, x.clone())[1](v)[0]
    result, pull = torch.func.vjp(function, x)
    write(x, result)
    return "right" if torch.allclose(pull(v)[0], right) else "**wrong**"


@pytest.mark.parametrize("row", rows()[2:], ids=lambda row: row[0])
def test_the_table_tells_what_happens(row: list[str]) -> None:
    """A wrong gradient is told, by both lines; nothing else is."""
    for backend, field in zip(rows()[0][1:], row[1:], strict=True):
        expected = here(field)
        with outplace.watch() as watched:
            assert outcome(row[0], backend) == expected, backend
        silent = [found for found in watched.diagnoses if found.code in ("OUT301", "OUT341")]
        assert len(silent) == (expected == "**wrong**"), (backend, watched.diagnoses)
        for found in silent:
            function, write = FUNCTIONS.get(row[0]) or PULLED[row[0]]
            inside = function if function is overwrites_what_it_keeps else sneak._init_fn
            writer = inside if write is writes_nothing else write
            assert [mutation.site.function for mutation in found.mutations] == [writer.__name__]
            assert found.saved_by.site is not None and found.saved_by.site.file == __file__
