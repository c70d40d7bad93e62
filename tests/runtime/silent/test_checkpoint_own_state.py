"""Checkpointed blocks that change their own state. The truth: the gradients of the same block without a checkpoint."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import outplace


class Counted(nn.Module):
    """It counts its calls in a method of its own, and computes with the count."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([0.5, -0.3]))
        self.register_buffer("calls", torch.zeros(1))

    def advance(self):
        self.calls += 1

    def forward(self, x):
        self.advance()
        return torch.tanh(self.w * x / (1 + self.calls.clone()))


class Averaged(Counted):
    """It computes with a running average."""

    def forward(self, x):
        with torch.no_grad():
            self.calls.lerp_(x.mean(), 0.3)
        return torch.tanh(self.w * x - self.calls.clone())


class OnlyCounted(Counted):
    """It counts its calls, and computes without the count."""

    def forward(self, x):
        self.advance()
        return torch.tanh(self.w * x)


class Refilled(Counted):
    """It writes the same values each time."""

    def forward(self, x):
        with torch.no_grad():
            self.calls.copy_(x.detach().mean())
        return torch.tanh(self.w * x - self.calls.clone())


def plain(block, x):
    return block(x)


def checkpointed(block, x):
    return checkpoint(block, x, use_reentrant=False)


def sequential(block, x):
    return checkpoint_sequential(nn.Sequential(block, nn.Identity()), 2, x, use_reentrant=False)


def gradient(kind, run):
    block, x = kind(), torch.tensor([1.0, 2.0], requires_grad=True)
    run(block, x).sum().backward()
    return block.w.grad


@pytest.mark.parametrize("run", [checkpointed, sequential])
@pytest.mark.parametrize("kind", [Counted, Averaged, OnlyCounted, Refilled])
def test_a_wrong_gradient_is_told_of_and_a_right_one_is_not(kind, run):
    is_wrong = not torch.allclose(gradient(kind, run), gradient(kind, plain))
    assert is_wrong is (kind in (Counted, Averaged))
    with outplace.watch() as watched:
        gradient(kind, run)
    assert [one.code for one in watched.diagnoses] == ["OUT326"] * is_wrong
