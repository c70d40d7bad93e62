"""An optimizer's state that is kept, stepped on and loaded back."""

from __future__ import annotations

import copy

import pytest
import torch

import outplace
from outplace.source.analysis import check_file
from outplace.source.project import Project

BAD = {"SGD": {"lr": 0.1, "momentum": 0.9}, "Adam": {}, "AdamW": {"foreach": False}, "RMSprop": {"foreach": True}}


def train(optimizer, weight, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        weight.square().sum().backward()
        optimizer.step()


def found(keep, load, kind="Adam", first_steps=1, **options):
    """What is told of a program that keeps a state, trains on and loads it; and did loading bring back the momenta?"""
    weight = torch.ones(3, requires_grad=True)
    with outplace.watch() as watched:
        optimizer = getattr(torch.optim, kind)([weight], **options)
        train(optimizer, weight, first_steps)
        kept, then = keep(optimizer), copy.deepcopy(optimizer.state_dict()["state"])
        train(optimizer, weight, 2)
        loaded = load(optimizer, weight, kept)
    now = loaded.state_dict()["state"]
    moved = [key for key, value in then.get(0, {}).items() if not torch.equal(value, now[0][key])]
    return [one.code for one in watched.diagnoses], bool(moved)


def load_back(optimizer, weight, kept):
    optimizer.load_state_dict(kept)
    return optimizer


@pytest.mark.parametrize("kind", BAD)
def test_momenta_that_are_not_brought_back(kind):
    assert found(lambda one: one.state_dict(), load_back, kind, **BAD[kind]) == (["OUT334"], True)


@pytest.mark.parametrize("kind", BAD)
def test_a_deep_copy_brings_them_back(kind):
    assert found(lambda one: copy.deepcopy(one.state_dict()), load_back, kind, **BAD[kind]) == ([], False)


def test_a_state_without_momenta_is_complete():
    assert found(lambda one: one.state_dict(), load_back, "SGD", lr=0.1) == ([], False)


def test_a_state_from_before_the_first_step_resets_the_optimizer():
    codes, _ = found(lambda one: one.state_dict(), load_back, first_steps=0)
    assert codes == []


def test_another_optimizer_may_take_the_state_over():
    def load(optimizer, weight, kept):
        other = torch.optim.Adam([weight])
        other.load_state_dict(kept)
        return other

    codes, _ = found(lambda one: one.state_dict(), load)
    assert codes == []


def test_a_state_that_is_loaded_at_once_is_complete():
    weight = torch.ones(3, requires_grad=True)
    with outplace.watch() as watched:
        optimizer = torch.optim.Adam([weight])
        train(optimizer, weight, 2)
        optimizer.load_state_dict(optimizer.state_dict())
    assert watched.diagnoses == []


SOURCE = """
import copy
import torch
from torch import nn

net = nn.Linear(2, 1)
optimizer = torch.optim.{optimizer}
def train():
    optimizer.zero_grad()
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
{first}
best = {kept}
train()
{loaded}.load_state_dict(best)
"""


@pytest.mark.parametrize(
    ("optimizer", "first", "kept", "loaded", "severities"),
    [
        ("Adam(net.parameters())", "train()", "optimizer.state_dict()", "optimizer", ["error"]),
        ("SGD(net.parameters(), 0.1, 0.9)", "train()", "optimizer.state_dict()", "optimizer", ["error"]),
        ("SGD(net.parameters(), 0.1)", "train()", "optimizer.state_dict()", "optimizer", []),
        ("Adam(net.parameters())", "", "optimizer.state_dict()", "optimizer", []),
        ("Adam(net.parameters())", "train()", "copy.deepcopy(optimizer.state_dict())", "optimizer", []),
        ("Adam(net.parameters())", "train()", "optimizer.state_dict()", "torch.optim.Adam(net.parameters())", []),
    ],
)
def test_check(tmp_path, optimizer, first, kept, loaded, severities):
    file = tmp_path / "program.py"
    file.write_text(SOURCE.format(optimizer=optimizer, first=first, kept=kept, loaded=loaded))
    findings = check_file(str(file), file.read_text(), Project((str(tmp_path),))).findings
    assert [one.severity for one in findings if one.code == "OUT334"] == severities
