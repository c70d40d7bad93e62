"""`x.data = y` moves one tensor to other memory: what was kept of its old memory stays right. Held to torch itself."""

from __future__ import annotations

import pytest
import torch

from outplace.source.analysis import check_file
from outplace.source.project import Project

PROGRAM = """
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
a, b = torch.randn({a}, requires_grad=True), torch.randn({b}, requires_grad=True)
loss = ({forward}).square().sum()
{moved}.data = torch.zeros_like({moved})  # moved
loss.backward()
"""
MATRICES = {"a": "4, 3", "b": "3, 2"}
CASES = {
    "a product": ("a * b", "a", {"a": "3", "b": "3"}),
    "matrices": ("a @ b", "b", MATRICES),
    "batches": ("a @ b", "a", {"a": "5, 4, 3", "b": "5, 3, 2"}),
    "a matrix by batches": ("torch.bmm(a, b)", "a", {"a": "5, 4, 3", "b": "5, 3, 2"}),
    "einsum": ("torch.einsum('ij,jk->ik', a, b)", "a", MATRICES),
    "the input of linear": ("F.linear(a, b)", "a", {"a": "4, 3", "b": "2, 3"}),
    "its input in batches": ("F.linear(a, b)", "a", {"a": "5, 4, 3", "b": "2, 3"}),
    "its weight": ("F.linear(a, b)", "b", {"a": "4, 3", "b": "2, 3"}),
    "the weight of conv": ("F.conv1d(a, b)", "b", {"a": "2, 3, 5", "b": "4, 3, 1"}),
    "the weight of layer_norm": ("F.layer_norm(a, (3,), b)", "b", {"a": "4, 3", "b": "3"}),
    "a result": ("(b := a.exp()) * 2", "b", MATRICES),
    "an input": ("a.sin()", "a", MATRICES),
    "a view of it": ("a.view(-1).sin()", "a", MATRICES),
}


def gradients(source):
    names = {}
    exec(source, names)
    return [names[name].grad for name in "ab" if names[name].is_leaf and names[name].grad is not None]


def is_wrong(source):
    left_alone = "\n".join(line for line in source.splitlines() if "# moved" not in line)
    pairs = zip(gradients(source), gradients(left_alone), strict=True)
    return not all(torch.equal(one, other) for one, other in pairs)


def kinds_found(source):
    return [finding.kind for finding in check_file("a.py", source, Project()).findings]


def agrees_with_torch(source):
    assert kinds_found(source) == ["silent-data"] * is_wrong(source)


@pytest.mark.parametrize("name", CASES)
def test_an_assignment(name):
    forward, moved, sizes = CASES[name]
    agrees_with_torch(PROGRAM.format(forward=forward, moved=moved, **sizes))


VECTOR = """
import torch
from torch import nn
from torch.nn.utils import vector_to_parameters

torch.manual_seed(0)
net = nn.Sequential({layer}, nn.Tanh(), {layer})
a, b = torch.randn(2, 4, 4, requires_grad=True), net[0].weight
loss = net(a).square().sum()
vector_to_parameters(torch.zeros(40), net.parameters())  # moved
loss.backward()
"""


@pytest.mark.parametrize("layer", ["nn.Linear(4, 4)", "nn.Conv1d(4, 4, 1)"])
def test_vector_to_parameters(layer):
    agrees_with_torch(VECTOR.format(layer=layer))


SWAPPED = """
import torch

torch.manual_seed(0)
a, b = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
loss = (a * b).square().sum()
old = {kept}  # moved
{swapped}  # moved
{between}
{restored}  # moved
loss.backward()
"""
SWAPS = {
    "its own memory": ("a.data", "a.data = torch.zeros(3)", "", "a.data = old"),
    "its own memory, by detach": ("a.detach()", "a.data = torch.zeros(3)", "", "a.data = old"),
    "its own memory, written": ("a.data", "a.data = torch.zeros(3)", "old += 1  # moved", "a.data = old"),
    "a clone": ("a.data.clone()", "a.data = torch.zeros(3)", "", "a.data = old"),
    "a clone, copied back": ("a.detach().clone()", "a.data.copy_(torch.zeros(3))", "", "a.data.copy_(old)"),
    "a clone, written": ("a.data.clone()", "a.data = torch.zeros(3)", "old += 1  # moved", "a.data = old"),
    "a clone, after a change": ("(a.data.add_(1), a.data.clone())[1]", "a.data.zero_()", "", "a.data.copy_(old)"),
    "something else": ("b.data.clone()", "a.data = torch.zeros(3)", "", "a.data = old"),
    "not at all": ("a.data", "a.data = torch.zeros(3)", "", "a.data = old * 2"),
}


@pytest.mark.parametrize("swap", SWAPS)
def test_what_was_there_is_put_back(swap):
    kept, swapped, between, restored = SWAPS[swap]
    source = SWAPPED.format(kept=kept, swapped=swapped, between=between, restored=restored)
    assert bool(kinds_found(source)) == is_wrong(source)


def test_what_is_kept_between_the_two_is_wrong_after_them():
    source = SWAPPED.format(
        kept="a.data", swapped="a.data = torch.zeros(3)", between="loss = (a * b).sum()", restored="a.data = old"
    )
    assert "silent-data" in kinds_found(source)
