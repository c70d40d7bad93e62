"""Detectors live from attach to detach, and bugs of different rules are told beside each other."""

from __future__ import annotations

import ast
import gc
from pathlib import Path

import pytest
import torch
import torch._dynamo  # takes a picture of the attributes of tensors when it is imported
from torch import nn

import outplace
from outplace.runtime.patches import backward
from outplace.runtime.record.events import events
from outplace.runtime.silent import detector, rules, scan

MODULES = sorted(Path(rules.__file__).parent.glob("[a-z]*.py"))


def train(net, optimizer, steps=2):
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.ones(1, 2)).sum().backward()
        optimizer.step()


def make():
    net = nn.Linear(2, 1)
    return net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def test_two_rules_are_broken_on_one_line():
    with outplace.watch() as watched:
        net, optimizer = make()
        train(net, optimizer)
        weights, momenta = net.state_dict(), optimizer.state_dict()
        train(net, optimizer)
        net.load_state_dict(weights)
        optimizer.load_state_dict(momenta)
    assert [one.code for one in watched.diagnoses] == ["OUT314", "OUT334"]
    first, second = watched.diagnoses
    assert first.mutations[0].site == second.mutations[0].site


def test_what_one_watch_has_noted_is_nothing_to_the_next():
    net, optimizer = make()
    with outplace.watch():
        train(net, optimizer)
        weights, momenta = net.state_dict(), optimizer.state_dict()
        train(net, optimizer)
    with outplace.watch() as watched:
        net.load_state_dict(weights)
        optimizer.load_state_dict(momenta)
    assert watched.diagnoses == []


def test_a_replaced_parameter_is_forgotten_with_its_watch():
    with outplace.watch():
        net, optimizer = make()
        net.weight = nn.Parameter(torch.zeros(1, 2))
        train(net, optimizer, steps=1)  # would be told when the next backward starts
    with outplace.watch() as watched:
        net(torch.ones(1, 2)).sum().backward()
    assert watched.diagnoses == []


def test_nothing_is_left_of_the_detectors():
    noticed = backward.noticed
    before = list(noticed)
    gc.collect()
    others = _detectors()  # an exception that another test has caught may hold its frames
    with outplace.watch():
        train(*make())
        assert any(vars(events).values())
        assert scan.also
    assert not any(vars(events).values())
    assert scan.also == []
    assert [one for one in noticed if not any(one is old for old in before)] == []
    gc.collect()
    assert [one for one in _detectors() if not any(one is old for old in others)] == []


def _detectors() -> list[detector.Detector]:
    return [one for one in gc.get_objects() if issubclass(type(one), detector.Detector)]


def test_a_function_is_looked_at_after_a_hook_was():
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad.mul_(5)

    def go_backward(hook, function):
        x, u = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        a, b = x * 1, Scale.apply(u) if function else u * 1
        if hook:
            b.register_hook(lambda g: g.mul_(5))
        ((a + b) * torch.ones(3)).sum().backward()

    with outplace.watch() as watched:
        go_backward(hook=True, function=False)
        go_backward(hook=False, function=True)
    assert [one.code for one in watched.diagnoses] == ["OUT304", "OUT305"]


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_a_rule_keeps_no_state_in_its_module(module):
    tree = ast.parse(module.read_text("utf-8"))
    assert not any(isinstance(node, ast.Global) for node in ast.walk(tree))
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            (target,) = node.targets if isinstance(node, ast.Assign) else (node.target,)
            calls = {
                one.func.id for one in ast.walk(node.value) if isinstance(one, ast.Call) and hasattr(one.func, "id")
            }
            empty = isinstance(node.value, ast.List | ast.Dict) and not ast.unparse(node.value).strip("[]{}")
            assert not empty and not calls & {"list", "dict", "set", "deque", "defaultdict"}, target
