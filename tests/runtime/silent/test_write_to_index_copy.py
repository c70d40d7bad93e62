"""Writes to the copy that an index makes. The truth: the tensor that was indexed does not change."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import outplace

ROWS, MASK = torch.tensor([0, 2]), torch.tensor([True, False, True])


def zeroed(x):
    x[MASK].zero_()


def by_column(x):
    x[ROWS][:, 1].fill_(3)


def in_a_chain(x):
    x[[0, 1]].mul_(2).add_(1)


def by_comparison(x):
    x[x[:, 0] > 0].clamp_(max=0.5)


def part_of_rows(x):
    x[ROWS, 1:][0].sub_(1)


def view(x):
    x[1:][0].fill_(3)


def row(x):
    x[ROWS[0]].zero_()


def assigned(x):
    x[ROWS] = 0


def augmented(x):
    x[ROWS] *= 2


def assigned_to_copy(x):
    x[ROWS][0] = 5


def augmented_copy(x):
    x[MASK][:, 1] -= 1


def of_weight(x):
    layer = nn.Embedding(3, 2)
    layer.weight.data.copy_(x)
    layer.weight.data[ROWS].mul_(2)
    x[:] = layer.weight.data


def used(x):
    y = x[ROWS].mul_(2)
    x.copy_(torch.cat([y, y[:1]]))


LOST = [
    zeroed, by_column, in_a_chain, by_comparison, part_of_rows, assigned_to_copy, augmented_copy, of_weight,
]  # fmt: skip


def changed_and_told(write):
    """Does the tensor change, and what is told?"""
    x = torch.arange(1.0, 7.0).view(3, 2)
    before = x.clone()
    with outplace.watch() as watched:
        write(x)
    return not x.equal(before), [one.code for one in watched.diagnoses]


@pytest.mark.parametrize("write", LOST)
def test_a_write_that_is_lost(write):
    assert changed_and_told(write) == (False, ["OUT331"])


@pytest.mark.parametrize("write", [assigned, augmented, used, view, row])
def test_a_write_that_arrives(write):
    assert changed_and_told(write) == (True, [])
