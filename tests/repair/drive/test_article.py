"""The examples of the article that started it, each before and after."""

from __future__ import annotations

import pytest
import torch
from differences import verdict

HEAD = """import torch

x = torch.tensor([0.2, 0.4, 0.6, 0.8], dtype=torch.float64).requires_grad_()
leaves = [x]
"""
TAIL = "loss = (x * x).sum()\nloss.backward()\n"


def program(body: str) -> str:
    return f"{HEAD}{body}\n{TAIL}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("x.add_(1)", "x = x.add(1)", id="a method with an underscore"),
        pytest.param("x += 1", "x = x + 1", id="an augmented assignment"),
        pytest.param("x += 0.5", "x = x + 0.5", id="x += 0.5"),
        pytest.param("x *= 2", "x = x * 2", id="its kin"),
        pytest.param("x[1] = 0", "x = x.clone()\nx[1] = 0", id="an index"),
        pytest.param("x[1:3] = 0", "x = x.clone()\nx[1:3] = 0", id="a slice"),
        pytest.param("x[x > 0.5] = 0.5", "x = x.masked_fill(x > 0.5, 0.5)", id="a mask"),
    ],
)
def test_writes_on_a_leaf(fixed, before, after):
    """A leaf that requires grad must not be written: each of these is an error, and becomes a new tensor."""
    assert fixed(program(before)) == program(after)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        exec(program(before), {})
    assert verdict(program(before), program(after)) == "mended"


def test_a_view_of_a_leaf(fixed):
    """The article's own error: a view of a leaf Variable that requires grad is being used in an in-place operation."""
    source = program("y = x[:2]\ny += 1\nx = torch.cat([y, x[2:]])")
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        exec(source, {})
    assert "y = y + 1" in fixed(source)
    assert verdict(source, fixed(source)) == "mended"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("x[x > 0.5] = 0.0", "x = x + (x > 0.5) * (0.0 - x)", id="a mask"),
        pytest.param(
            "x[torch.tensor([2, 3])] = 0.0",
            "mask = torch.zeros_like(x, dtype=torch.bool)\nmask[torch.tensor([2, 3])] = True\nx = x + mask * (0.0 - x)",
            id="an index becomes a mask",
        ),
        pytest.param(
            "x[2:] = 0.0",
            "mask = torch.zeros_like(x, dtype=torch.bool)\nmask[2:] = True\nx = x + mask * (0.0 - x)",
            id="a slice becomes a mask",
        ),
    ],
)
def test_the_blend(fixed, body, expected):
    """x = [0.2, 0.4, 0.6, 0.8] with zeros where x > 0.5 gives [0.2, 0.4, 0, 0], with a grad_fn."""
    text = fixed(program(body), style="blend")
    assert text == program(expected)
    names: dict[str, torch.Tensor] = {}
    exec(text, names)
    assert names["x"].tolist() == pytest.approx([0.2, 0.4, 0, 0])
    assert names["x"].grad_fn is not None
    assert verdict(program(body), text) == "mended"


def test_data_is_no_way_out(fixed):
    """`x.data` raises nothing and hides the change; the gradient is that of what is computed where it is recorded."""
    source = f"{HEAD}h = x.tanh()\nh.data.mul_(2)\nloss = h.sum()\nloss.backward()\n"
    names: dict[str, torch.Tensor] = {}
    exec(source, names)
    x = names["x"].detach()
    steps = torch.eye(len(x), dtype=x.dtype) * 1e-6
    slope = torch.stack([2 * ((x + step).tanh() - (x - step).tanh()).sum() for step in steps]) / 2e-6
    assert not torch.allclose(names["x"].grad, slope), "no error, and a wrong gradient"
    exec(fixed(source), names)
    assert torch.allclose(names["x"].grad, slope)


def test_what_the_caller_sees(fixed):
    """`input = input + 1` is seen by nobody outside, `input.add_(1)` is: where the caller looks, it stays."""
    source = """import torch


def shift(input):
    input.add_(1)


x = torch.ones(3, requires_grad=True)
h = x.exp()
shift(h)
h.sum().backward()
"""
    assert fixed(source) == source.replace("x.exp()", "x.exp().clone()")
