"""Wrong gradients that PyTorch never reports: how far they are off, when they are told, and when they are raised."""

from __future__ import annotations

import copy
import pickle
import re
import sys

import numpy
import pytest
import torch
from torch import nn

import outplace
from outplace.model import Diagnosis


def off(diagnosis: Diagnosis) -> float:
    """How far the gradient is off, as the diagnosis tells it."""
    note = next(note for note in diagnosis.notes if "far" in note)
    percent, size = re.search(r"is ([\d.e-]+)%", note), re.search(r"is ([\d.e-]+) of its size", note)
    return float(percent[1]) / 100 if percent else float(size[1])  # type: ignore[index]


def exp_then_written() -> tuple[torch.Tensor, torch.Tensor]:
    """Leaves a gradient that is wrong, and gives the right one beside it."""
    torch.manual_seed(0)
    x = torch.randn(5, requires_grad=True)
    y = x.exp()
    loss = (y * 3).sum()
    right = 3 * x.detach().exp()
    y.data.mul_(1.5)
    loss.backward()
    assert x.grad is not None
    return x.grad, right


def test_it_tells_how_far_the_gradient_is_off():
    with outplace.watch() as watched:
        got, right = exp_then_written()
    (found,) = watched.diagnoses
    assert found.kind == "silent-data"
    assert off(found) == pytest.approx(float((got - right).norm() / right.norm()), rel=0.02)


def test_a_safe_rewrite_is_shown_as_a_diff():
    with outplace.watch() as watched:
        exp_then_written()
    (fix,) = watched.diagnoses[0].fixes
    assert fix.safety == "safe"
    assert "-    y = x.exp()\n+    y = x.exp().clone()\n" in fix.diff


class Squares(torch.autograd.Function):
    """A node that outplace may not run again."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def test_gradcheck_of_a_custom_function_puts_each_element_back():
    x = torch.rand(5, dtype=torch.float64, requires_grad=True)
    with outplace.watch() as watched:
        assert torch.autograd.gradcheck(Squares.apply, (x,))
    assert watched.diagnoses == []


def test_what_a_custom_function_saved_is_written_and_not_put_back():
    x = torch.rand(5, dtype=torch.float64, requires_grad=True)
    before = x.detach().clone()
    with outplace.watch() as watched:
        loss = Squares.apply(x).sum()
        x.data[0] = 7.0
        x.data[1] = before[1]
        loss.backward()
    assert x.grad is not None
    assert not torch.equal(x.grad, 2 * before)
    assert [found.code for found in watched.diagnoses] == ["OUT301"]


def test_what_a_hook_of_a_module_returns_is_another_gradient_so_no_rewrite_is_shown():
    def damp(module, grad_input, grad_output):
        grad_output[0].mul_(0.1)

    one, two, x = nn.Linear(4, 4), nn.Linear(4, 4), torch.randn(5, 4)
    with outplace.watch() as watched:
        two.register_full_backward_hook(damp)
        (one(x) + two(x)).square().sum().backward()
    assert [fix.diff for found in watched.diagnoses for fix in found.fixes] == [None]


def test_the_name_is_that_of_the_writing_line():
    def masked(x: torch.Tensor) -> torch.Tensor:
        scores = x.softmax(-1)
        scores.data[0] = 0.0
        return scores

    with outplace.watch() as watched:
        h = masked(torch.randn(4, requires_grad=True))
        h.square().sum().backward()
    assert [found.tensor.name for found in watched.diagnoses] == ["scores"]


def test_the_program_goes_on_with_the_numbers_it_has_without_us():
    alone, _ = exp_then_written()
    with outplace.watch(guard=True):
        watched, _ = exp_then_written()
    assert torch.equal(alone, watched)


def test_strict_raises_from_the_backward():
    with pytest.raises(outplace.WrongGradientError, match="OUT301") as caught, outplace.watch(strict=True):
        exp_then_written()
    if sys.version_info >= (3, 11):  # Python 3.10 has no notes
        assert any("y.data.mul_(1.5)" in note for note in caught.value.__notes__)
    (found,) = caught.value.outplace_diagnoses  # type: ignore[attr-defined]
    assert found.mutations[0].site.text == "y.data.mul_(1.5)"
    exp_then_written()  # and no longer afterwards


def test_each_block_hears_of_the_bug_again():
    for _ in range(6):
        with outplace.watch() as watched:
            exp_then_written()
        assert [found.code for found in watched.diagnoses] == ["OUT301"]


def test_a_write_that_changes_nothing_that_backward_uses_is_no_bug():
    x = torch.randn(5, 3, requires_grad=True)
    with outplace.watch() as watched:
        scores = torch.log_softmax(x, 1)
        loss = nn.functional.nll_loss(scores * 1, torch.tensor([0, 1, 2, 0, 1]))
        (scores * 1).data.zero_()
        weight = torch.ones(3)
        product = (x.detach() * weight).sum() + loss
        weight.data.mul_(1.0)
        product.backward()
    assert not watched.diagnoses


def test_a_node_that_backward_never_comes_to_is_no_bug():
    x, w = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    with outplace.watch() as watched:
        y = w.exp()
        loss = (x * 2).sum() + y.sum()
        y.data.zero_()
        torch.autograd.grad(loss, x)
    assert not watched.diagnoses


def test_disjoint_parts_of_an_array_are_no_bug():
    ring = numpy.zeros((4, 3), dtype=numpy.float32)
    layer = nn.Linear(3, 1)
    with outplace.watch() as watched:
        loss = layer(torch.from_numpy(ring[:2])).square().sum()
        torch.from_numpy(ring[2:]).fill_(7.0)
        loss.backward()
    assert not watched.diagnoses


def test_a_hook_on_a_module_is_pickled_and_copied_as_the_users_own():
    with outplace.watch():
        module = nn.Linear(2, 2)
        module.register_full_backward_hook(print_nothing)
        again = pickle.loads(pickle.dumps(module))
        copied = copy.deepcopy(module)
    for one in (again, copied):
        assert list(one._backward_hooks.values()) == [print_nothing]


def print_nothing(module: nn.Module, inputs: object, outputs: object) -> None:
    """A hook that does nothing."""


@pytest.mark.parametrize("shared", [True, False])
def test_a_hook_that_writes_its_gradient_is_a_bug_only_where_others_share_it(shared: bool):
    one, two = nn.Linear(3, 3), nn.Linear(3, 3)
    x = torch.randn(2, 3)
    with outplace.watch() as watched:
        first, second = one(x), two(x)
        second.register_hook(lambda gradient: gradient.mul_(0.5))
        ((first + second if shared else second * 1) * torch.randn(2, 3)).sum().backward()
    assert [found.kind for found in watched.diagnoses] == (["silent-other"] if shared else [])


def test_fused_optimizers_after_backward_are_no_bug():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.Adam(net.parameters(), fused=True)
    with outplace.watch() as watched:
        for _ in range(5):
            optimizer.zero_grad()
            net(torch.randn(4, 3)).square().mean().backward()
            optimizer.step()
    assert not watched.diagnoses
