"""Writes inside checkpointed blocks: which of them change a gradient, held to the same block without them."""

from __future__ import annotations

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import outplace


def saved_result_written(x, w):
    h = torch.tanh(x * w)
    h -= 1
    return h * w


def saved_result_left_alone(x, w):
    return (torch.tanh(x * w) - 1) * w


def last_result_written(x, w):
    h = torch.tanh(x * w)
    h -= 1  # the second run stops before it: nothing more is saved
    return h


def last_result_left_alone(x, w):
    return torch.tanh(x * w) - 1


def rows_one_by_one(x, w):
    rows = torch.zeros(3, 4)
    rows[0] = x * 1
    for t in range(1, 3):
        rows[t] = torch.tanh(rows[t - 1] * w)
    return rows


def rows_stacked(x, w):
    rows = [x * 1]
    for _ in range(2):
        rows.append(torch.tanh(rows[-1] * w))
    return torch.stack(rows)


def the_same_written_again(x, w):
    h = torch.relu(x * w)
    h.clamp_(min=0)
    return h * w


def the_same_left_alone(x, w):
    return torch.relu(x * w) * w


BLOCKS = {
    "a saved result": (saved_result_written, saved_result_left_alone),
    "the last saved result": (last_result_written, last_result_left_alone),
    "other rows of one tensor": (rows_one_by_one, rows_stacked),
    "the same values": (the_same_written_again, the_same_left_alone),
}


def gradients(block, **way):
    torch.manual_seed(0)
    x, w = torch.randn(4, requires_grad=True), torch.randn(4, requires_grad=True)
    made = checkpoint(block, x, w, **way) if way else block(x, w)
    made.square().sum().backward()
    return torch.stack([x.grad, w.grad])


@pytest.mark.parametrize("name", BLOCKS)
def test_only_a_wrong_gradient_is_told_of(name):
    block, without = BLOCKS[name]
    alone = gradients(block, use_reentrant=False)
    is_wrong = not torch.allclose(alone, gradients(without))
    assert is_wrong is (name == "a saved result")
    for _ in range(5):  # the lines of a block are not looked at every time: no round may tell what is not there
        with outplace.watch() as watched:
            assert torch.equal(gradients(block, use_reentrant=False), alone)
        assert [found.code for found in watched.diagnoses] == ["OUT325"] * is_wrong


def test_it_names_both_lines_and_the_rewrite():
    with outplace.watch() as watched:
        gradients(saved_result_written, use_reentrant=False)
    (found,) = watched.diagnoses
    assert found.tensor.name == "h"
    assert found.saved_by.site.text.endswith("torch.tanh(x * w)")  # Python 3.10 knows the statement only
    assert [mutation.site.text for mutation in found.mutations] == ["h -= 1"]
    assert "+    h = h - 1" in found.fixes[0].diff


def test_strict_raises():
    with pytest.raises(outplace.WrongGradientError, match="OUT325"), outplace.watch(strict=True):
        gradients(saved_result_written, use_reentrant=False)
