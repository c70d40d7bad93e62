"""What forward hooks keep, and what overwrites it, against what they keep of a network without flags."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

import outplace

X = torch.tensor([[1.0, -2.0], [0.5, 3.0]])
SEEN = {}


def by_global(module, inputs, output):
    SEEN["kept"] = output


def network(inplace):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), nn.ReLU(inplace=inplace), nn.Linear(3, 1))


def kept_by(hook, take, inplace=True, layer=0):
    """What a hook has kept after a forward and its backward, and what was told."""
    with outplace.watch() as watched:
        net = network(inplace)
        net[layer].register_forward_hook(hook)
        net(X.clone().requires_grad_()).sum().backward()
    return take(), [one.code for one in watched.diagnoses]


class Keeper:
    def __init__(self):
        self.output, self.each, self.by_name = None, [], {}

    def as_attribute(self, module, inputs, output):
        self.output = output

    def in_list(self, module, inputs, output):
        self.each.append(output)

    def named(self, name, module, inputs, output):
        self.by_name[name] = output

    def view(self, module, inputs, output):
        self.output = output.flatten()

    def copied(self, module, inputs, output):
        self.output = output.clone()

    def number(self, module, inputs, output):
        self.output = output.sum().item()


def ways():
    keeper, closed = Keeper(), []
    yield keeper.as_attribute, lambda: keeper.output
    yield keeper.in_list, lambda: keeper.each[-1]
    yield partial(keeper.named, "first"), lambda: keeper.by_name["first"]
    yield keeper.view, lambda: keeper.output
    yield (lambda module, inputs, output: closed.append(output)), lambda: closed[-1]
    yield by_global, lambda: SEEN["kept"]


@pytest.mark.parametrize("way", range(6))
def test_an_output_that_the_next_module_overwrites(way):
    kept, told = kept_by(*list(ways())[way])
    right, _ = kept_by(*list(ways())[way], inplace=False)
    assert not kept.equal(right) and told == ["OUT343"]


@pytest.mark.parametrize("way", range(6))
def test_what_nothing_overwrites(way):
    hook, take = list(ways())[way]
    assert kept_by(hook, take, inplace=False)[1] == []
    assert kept_by(hook, take, layer=1)[1] == []  # of the module that writes


@pytest.mark.parametrize("name", ["copied", "number"])
def test_a_hook_that_keeps_no_reference(name):
    keeper = Keeper()
    kept, told = kept_by(getattr(keeper, name), lambda: keeper.output)
    right, _ = kept_by(getattr(keeper, name), lambda: keeper.output, inplace=False)
    assert told == [] and torch.as_tensor(kept).equal(torch.as_tensor(right))


def test_a_program_may_change_what_it_has_kept():
    keeper = Keeper()
    with outplace.watch() as watched:
        net = network(inplace=False)
        net[0].register_forward_hook(keeper.as_attribute)
        out = net(X).sum()
        keeper.output.div_(2.0)
        kept = keeper.output
        kept += 1
        (out + keeper.output.sum()).backward()
    assert watched.diagnoses == []


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        y = self.first(x)
        z = self.second(x)
        y += z
        return y


def test_a_statement_of_a_forward():
    keeper = Keeper()
    with outplace.watch() as watched:
        net = Residual()
        net.first.register_forward_hook(keeper.as_attribute)
        net.second.register_forward_hook(keeper.in_list)
        net(X).sum().backward()
    first, second = keeper.output, keeper.each[0]
    assert first.equal(net.first(X) + second) and second.equal(net.second(X))
    assert [one.code for one in watched.diagnoses] == ["OUT343"]


class Normed(nn.BatchNorm1d):
    """Its own hook can reach its buffers, which its forward writes."""

    def watch(self, module, inputs, output):
        self.seen = output.detach().mean().item()


def test_the_buffers_of_a_module_are_no_outputs():
    with outplace.watch() as watched:
        net = nn.Sequential(nn.Linear(2, 3), Normed(3))
        net[1].register_forward_hook(net[1].watch)
        for _ in range(2):
            net(X).sum().backward()
    assert watched.diagnoses == []
