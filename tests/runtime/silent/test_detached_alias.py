"""Writes of an activation through a detached alias, while the activation is used later."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import outplace
from outplace.source.analysis import check_file
from outplace.source.project import Project


def flattened(h):
    s = h.detach().flatten()
    s.clamp_(0, 0.1)


def viewed(h):
    h.detach().view(-1).mul_(2)


def sliced(h):
    h.detach()[0].mul_(2)


def shifted(h):
    s = h.detach()
    s -= s.mean()


def assigned(h):
    s = h.detach()
    s[0] = 5.0


def by_a_module(h):
    nn.ReLU(inplace=True)(h.detach())


def cloned(h):
    s = h.detach().clone()
    s.clamp_(0, 0.1)


def read_only(h):
    return h.detach().clamp(0, 0.1).mean()


def recorded(h):
    h.detach().mean()
    h.mul_(2)


def values_and_codes(how):
    """Does `how` change what the later users of an activation compute, as torch sees it; and what is told of it?"""
    torch.manual_seed(0)
    layer, x = nn.Linear(3, 4), torch.randn(2, 3)
    with outplace.watch() as watched:
        h = layer(x)
        how(h)
        loss = h.square().sum() + h.sum()
        loss.backward()
    plain = layer(x)
    changed = not torch.equal(loss, plain.square().sum() + plain.sum())
    return changed, [one.code for one in watched.diagnoses]


@pytest.mark.parametrize("how", [flattened, viewed, sliced, shifted, assigned, by_a_module])
def test_the_later_users_take_other_values(how):
    assert values_and_codes(how) == (True, ["OUT335"])


@pytest.mark.parametrize("how", [cloned, read_only])
def test_the_activation_stays_as_it_is(how):
    assert values_and_codes(how) == (False, [])


def test_a_write_that_autograd_records_is_meant():
    assert values_and_codes(recorded)[1] == []


def test_a_write_after_the_last_use():
    layer = nn.Linear(3, 4)
    with outplace.watch() as watched:
        h = layer(torch.randn(2, 3))
        loss = h.sum()
        h.detach().clamp_(0, 0.1)
        loss.backward()
    assert watched.diagnoses == []


def test_what_is_no_activation():
    layer, x = nn.Linear(3, 4), torch.randn(2, 3)
    with outplace.watch() as watched:
        x.detach().clamp_(0, 0.1)
        layer(x).sum().backward()
    assert watched.diagnoses == []


def test_what_pytorch_refuses_is_its_own_error():
    layer = nn.Linear(3, 4)
    with outplace.watch() as watched, pytest.raises(RuntimeError, match="modified by an inplace operation"):
        h = layer(torch.randn(2, 3))
        first = h.square()
        h.detach().clamp_(0, 0.1)
        (first + h).sum().backward()
    assert [one.code for one in watched.diagnoses] == ["OUT201"]


def test_detach_inside_transforms():
    def loss(x):
        h = x * 2
        return (h * h.detach()).sum()

    x = torch.ones(2, 3)
    expected = torch.func.vmap(torch.func.grad(loss))(x)
    with outplace.watch() as watched:
        assert torch.equal(torch.func.vmap(torch.func.grad(loss))(x), expected)
        torch.func.jvp(loss, (x,), (x,))
    assert watched.diagnoses == []


def test_detach_is_put_back():
    original = vars(torch.Tensor)["detach"]
    with outplace.watch():
        assert vars(torch.Tensor)["detach"] is not original
        assert torch.Tensor.detach is original
    assert vars(torch.Tensor)["detach"] is original


SOURCE = """
import torch
from torch import nn

layer = nn.Linear(3, 4)

def step(x: torch.Tensor):
    h = layer(x)
    {first}
    {write}
    loss = {loss}
    {last}
    loss.backward()

step(torch.randn(2, 3))
"""


@pytest.mark.parametrize(
    ("facts", "codes"),
    [
        ({"write": "h.detach().flatten().clamp_(0, 1)"}, ["OUT335"]),
        ({"write": "h.detach()[0].mul_(2)"}, ["OUT335"]),
        ({"first": "s = h.detach()", "write": "s -= s.mean()"}, ["OUT335"]),
        ({"write": "h.detach().clone().clamp_(0, 1)"}, []),
        ({"write": "torch.ones(3).detach().clamp_(0, 1)"}, []),
        ({"last": "h.detach().clamp_(0, 1)"}, []),
        ({"write": "h.detach().round_()"}, []),
        ({"first": "y = h.square()", "write": "h.detach().clamp_(0, 1)", "loss": "(y + h).sum()"}, ["OUT201"]),
    ],
)
def test_check(tmp_path, facts, codes):
    file = tmp_path / "program.py"
    file.write_text(SOURCE.format(**{"first": "", "write": "", "last": "", "loss": "h.sum()"} | facts))
    findings = check_file(str(file), file.read_text(), Project([str(tmp_path)])).findings
    assert [one.code for one in findings] == codes
