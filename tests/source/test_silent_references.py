"""Gradients, parameters and networks that are kept or replaced: what the source shows, beside what is fine."""

from __future__ import annotations

import textwrap

import pytest

from outplace.source.analysis import check_file
from outplace.source.project import Project

START = """
import copy
import torch
from torch import nn

net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(4, 3)
"""


def found(body: str) -> list[tuple[str, str]]:
    """The severity and the text of each line with a finding."""
    source = START + textwrap.dedent(body)
    lines = source.splitlines()
    findings = check_file("program.py", source, Project()).findings
    return [(finding.severity, lines[finding.site.line - 1].strip()) for finding in findings]


KEPT = """
net(x).mean().backward()
first = [p.grad for p in net.parameters()]
{between}
net(x).square().mean().backward()
second = [p.grad for p in net.parameters()]
dot = sum((a * b).sum() for a, b in zip(first, second))
"""


def test_gradients_kept_by_reference():
    again = ("warning", "net(x).square().mean().backward()")
    assert found(KEPT.format(between="")) == [again]
    zeroed = found(KEPT.format(between="net.zero_grad(set_to_none=False)"))
    assert zeroed == [("warning", "net.zero_grad(set_to_none=False)"), again]


@pytest.mark.parametrize("between", ["net.zero_grad()", "opt.zero_grad(set_to_none=True)"])
def test_gradients_that_are_dropped_stay_what_they_were(between):
    assert not found(KEPT.format(between=between))


def test_copies_of_gradients():
    assert not found(KEPT.format(between="").replace("[p.grad for", "[p.grad.clone() for"))


def test_gradients_used_at_once():
    body = """
    for _ in range(3):
        opt.zero_grad(set_to_none=False)
        net(x).mean().backward()
        for p in net.parameters():
            g = p.grad
            p.data.add_(g.clamp(-1, 1), alpha=-0.1)
            p.grad += 0.1 * p.data
        opt.step()
    """
    assert not found(body)


TRAIN = """
for _ in range(3):
    opt.zero_grad()
    net(x).mean().backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("net.weight = nn.Parameter(torch.zeros(1, 3))", "", "net.weight = nn.Parameter(torch.zeros(1, 3))"),
        ("net.weight = nn.Parameter(torch.zeros(1, 3))\nopt = torch.optim.SGD(net.parameters(), lr=0.1)", "", None),
        ("net.weight = nn.Parameter(torch.zeros(1, 3))\nopt.add_param_group({'params': [net.weight]})", "", None),
        ("net.weight = nn.Parameter(torch.zeros(1, 3), requires_grad=False)", "", None),
        ("", "net.weight = nn.Parameter(torch.zeros(1, 3))", None),
    ],
    ids=["replaced", "a new optimizer", "handed over", "frozen", "after training"],
)
def test_parameters_replaced_behind_the_optimizer(before, after, line):
    assert found(f"{before}\n{TRAIN}\n{after}") == ([("error", line)] if line else [])


def test_a_new_leaf_in_each_round():
    body = """
    w = torch.zeros(3, requires_grad=True)
    adam = torch.optim.Adam([w])
    for _ in range(3):
        adam.zero_grad()
        w.square().sum().backward()
        adam.step()
        w = w.detach().clamp(0, 1).requires_grad_()
    """
    assert found(body) == [("error", "w = w.detach().clamp(0, 1).requires_grad_()")]


def test_an_attack_by_hand_has_no_optimizer():
    body = """
    w = torch.zeros(3, requires_grad=True)
    for _ in range(3):
        w.square().sum().backward()
        w = (w - 0.1 * w.grad.sign()).detach().requires_grad_()
    """
    assert not found(body)


@pytest.mark.parametrize(("copied", "expected"), [("copy", [("warning", "opt.step()")]), ("deepcopy", [])])
def test_a_network_that_is_copied(copied, expected):
    assert found(f"target = copy.{copied}(net)\n{TRAIN}print(target)\n") == expected


def test_a_copy_of_a_network_that_nobody_reads():
    assert found(f"target = copy.copy(net)\n{TRAIN}") == []


@pytest.mark.parametrize(("end", "expected"), [("", [("error", "b.grad = a.grad")]), (".clone()", [])])
def test_one_gradient_for_two(end, expected):
    body = f"""
    a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    a.sum().backward()
    b.grad = a.grad{end}
    (a * b).sum().backward()
    """
    assert found(body) == expected
