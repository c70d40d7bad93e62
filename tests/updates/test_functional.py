"""`functional`: in-place code whose callers see nothing of it, with the gradient of the code that was meant."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from outplace import functional


@functional
def written_in_place(x: torch.Tensor) -> torch.Tensor:
    y = x.exp()
    y += 1  # exp has saved its result
    y[0] = 0.0
    y.sigmoid_()
    x.mul_(y)  # an argument, and perhaps a leaf
    x[1:] *= 2
    return (x * y).sum()


def written_without(x: torch.Tensor) -> torch.Tensor:
    y = torch.cat([torch.zeros_like(x[:1]), x[1:].exp() + 1]).sigmoid()
    x = x * y
    x = torch.cat([x[:1], x[1:] * 2])
    return (x * y).sum()


def test_gradients_are_right_and_the_argument_stays() -> None:
    x = torch.randn(4, dtype=torch.float64, requires_grad=True)
    before = x.detach().clone()
    (got,) = torch.autograd.grad(written_in_place(x), x)
    (expected,) = torch.autograd.grad(written_without(x), x)
    assert torch.allclose(got, expected) and torch.equal(x, before) and x._version == 0
    assert gradcheck(written_in_place, x, check_forward_ad=True) and gradgradcheck(written_in_place, x)


def test_without_it_the_same_code_fails() -> None:
    plain = written_in_place.__wrapped__  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        plain(torch.randn(4, requires_grad=True))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        plain(torch.randn(4, requires_grad=True) * 1).backward()


def test_writes_past_autograd_spoil_nothing_either() -> None:
    @functional
    def doubled(x: torch.Tensor) -> torch.Tensor:
        y = x * x
        x.data.zero_()
        return y

    x = torch.tensor([3.0], requires_grad=True)
    (got,) = torch.autograd.grad(doubled(x), x)
    assert got.item() == 6 and x.item() == 3


def test_tensors_are_found_in_the_arguments() -> None:
    @functional
    def change(pair: Any, *, more: Any) -> Any:
        pair[0].add_(1)
        more["b"][0].mul_(3)
        return pair[0], more["b"][0], more["text"]

    a, b = torch.zeros(2), torch.ones(2, requires_grad=True)
    results = change((a, 5), more={"b": [b], "text": "kept"})
    assert results[0].tolist() == [1, 1] and results[1].tolist() == [3, 3] and results[2] == "kept"
    assert a.tolist() == [0, 0] and b.tolist() == [1, 1]


def test_the_same_tensor_twice_is_one_tensor_inside() -> None:
    @functional
    def add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a += 1
        return b

    x = torch.zeros(2)
    assert add(x, x).tolist() == [1, 1] and add(x, x.clone()).tolist() == [0, 0]


def test_methods_and_names() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        @functional
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            """What it does."""
            h = self.layer(x).relu_()
            h *= h.sum()
            return h

    model = Model()
    x = torch.rand(2, 3)
    model(x).sum().backward()
    h = model.layer(x).relu()
    expected = torch.autograd.grad((h * h.sum()).sum(), model.layer.weight)[0]
    assert model.layer.weight.grad is not None and torch.allclose(model.layer.weight.grad, expected)
    assert Model.forward.__doc__ == "What it does." and Model.forward.__name__ == "forward"


def test_transforms_get_the_clones() -> None:
    @functional
    def shifted(x: torch.Tensor) -> torch.Tensor:
        x += 1
        x[0] = 0.0
        return (x * x).sum()

    x = torch.arange(3.0)
    assert torch.func.grad(shifted)(x).tolist() == [0, 4, 6] and x.tolist() == [0, 1, 2]
    assert torch.func.vmap(shifted)(torch.stack([x, x + 1])).tolist() == [13, 25]
