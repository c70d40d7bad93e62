"""Kernels that write behind autograd's back: fused updates, custom operators, what C code does through a pointer."""

from __future__ import annotations

import ctypes

import numpy
import pytest
import torch

import outplace


def fused_sgd(weight: torch.Tensor) -> None:
    torch._fused_sgd_(
        [weight.detach()],
        [torch.ones_like(weight)],
        [],
        weight_decay=0.0,
        momentum=0.0,
        lr=0.5,
        dampening=0.0,
        nesterov=False,
        maximize=False,
        is_first_step=True,
    )


def fused_adam(weight: torch.Tensor) -> None:
    zeros = [torch.zeros_like(weight)]
    torch._fused_adam_(
        [weight.detach()],
        [torch.ones_like(weight)],
        zeros,
        [torch.zeros_like(weight)],
        [],
        [torch.tensor(1.0)],
        lr=0.5,
        beta1=0.9,
        beta2=0.99,
        weight_decay=0.0,
        eps=1e-8,
        amsgrad=False,
        maximize=False,
    )


def fused_adagrad(weight: torch.Tensor) -> None:
    torch._fused_adagrad_(
        [weight.detach()],
        [torch.ones_like(weight)],
        [torch.zeros_like(weight)],
        [torch.tensor(1.0)],
        lr=0.5,
        lr_decay=0.0,
        weight_decay=0.0,
        eps=1e-8,
        maximize=False,
    )


@pytest.mark.parametrize("update", [fused_sgd, fused_adam, fused_adagrad])
def test_a_fused_update_that_is_called_by_itself(update):
    weight = torch.tensor([1.0, 2.0], requires_grad=True)
    with outplace.watch() as watched:
        loss = weight.square().sum()
        before = weight._version
        update(weight)
        assert weight._version == before and weight[0] != 1.0, "it is silent"
        loss.backward()
    (found,) = watched.diagnoses
    assert (found.kind, found.saved_by.node) == ("silent-data", "PowBackward0")
    assert found.mutations[0].site.text.startswith("torch._fused_")


@torch.library.custom_op("outplace_tests::halve_unsaid", mutates_args=())
def halve_unsaid(x: torch.Tensor) -> torch.Tensor:
    """Says that it writes nothing, and writes, as a C++ kernel would: through memory."""
    numpy.frombuffer((ctypes.c_float * x.numel()).from_address(x.data_ptr()), numpy.float32)[:] *= 0.5
    return x.sum()


@torch.library.custom_op("outplace_tests::halve_said", mutates_args={"x"})
def halve_said(x: torch.Tensor) -> None:
    x.mul_(0.5)


def test_a_custom_operator_that_does_not_say_that_it_writes():
    for guard, kinds in ((False, []), (True, ["silent-alias"])):
        x = torch.linspace(-1, 1, 4, requires_grad=True)
        with outplace.watch(guard=guard) as watched:
            y = x.exp()
            loss = y.sum()
            halve_unsaid(y.detach())
            loss.backward()
        assert [found.kind for found in watched.diagnoses] == kinds


def test_a_custom_operator_that_says_so_is_pytorchs_own_to_refuse():
    x = torch.linspace(-1, 1, 4, requires_grad=True)
    with outplace.watch(guard=True) as watched, pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y = x.exp()
        loss = y.sum()
        halve_said(y.detach())
        loss.backward()
    (found,) = watched.diagnoses
    assert found.kind == "saved"
    assert [mutation.site.text for mutation in found.mutations] == ["halve_said(y.detach())"]
    assert [site.text for site in found.mutations[0].chain] == ["x.mul_(0.5)"]


def test_a_scaler_that_unscales_gradients_in_a_graph():
    weight = torch.ones(3, requires_grad=True)
    scale = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    with outplace.watch() as watched:
        scaler.scale(weight.square().sum()).backward()
        penalty = (scale * weight.grad).sum()
        scaler.unscale_(optimizer)
        penalty.backward()
    (found,) = watched.diagnoses
    assert found.kind == "silent-data"
    assert found.mutations[0].site.text == "scaler.unscale_(optimizer)"
