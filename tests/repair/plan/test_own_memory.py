"""Copies where the written memory comes from, and for all savers at once: judged by numerical differentiation."""

from __future__ import annotations

import pytest
from differences import run, verdict

BEGINNING = """import torch

x = torch.linspace(0.213, 1.371, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
w = torch.linspace(1.117, 0.429, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
leaves = [x, w]


def turned(t):
    return t.T


def cleared(t):
    t.fill_(0.5)
    return t


"""
END = "loss.backward()\n"
KEPT = """class Kept:
    def __init__(self, t):
        self.t = t

    @torch.no_grad()
    def row(self, i):
        return self.t[i]


"""
SAME = """class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t.view_as(t)

    @staticmethod
    def backward(ctx, grad):
        return grad


"""

SAVED = {
    "two savers under other names": """h = x.exp()
g = h.view(-1)
a = g * 2 * w.view(-1)
b = (h.T @ w).sum()
h.mul_(3)
loss = a.sum() + b + h.sum() + h[0].sum()
k = [h]
loss = loss + k[0].sum()
""",
    "a saver in another function": """def f(t):
    return (t.reshape(-1) * w.reshape(-1)).sum()
h = x * 2
kept = {"h": h}
loss = f(kept["h"]) + f(h)
h += 1
loss = loss + kept["h"].sum() + h.sum()
""",
    "a saver in a comprehension": """h = x * 2
rows = [row * w[i] for i, row in enumerate(h)]
g = h
h *= 3
loss = sum(row.sum() for row in rows) + (g * h).sum()
""",
    "the saver is an argument of the write": """h = x * 2
g = h[:, 0]
h[:, 1] = g * w[:, 0]
h[:, 0] = g * g
loss = (h * g.sum()).sum()
""",
}


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in SAVED.items()])
def test_all_savers_get_copies(fixed, body):
    source = BEGINNING + body + END
    assert verdict(source, fixed(source)) == "mended"


REFUSED = {
    "a view of a leaf, written by a function": "t = turned(w)\ncleared(t[1:])\nloss = (t * x.T).sum()\n",
    "the same, of an argument": "def f(w):\n    t = turned(w)\n    cleared(t[:2])\n    return (t * t).sum()\n"
    "loss = f(w) + (x * x).sum()\n",
    "a view that was made without grad": KEPT
    + "kept = Kept(torch.zeros_like(w))\nt = kept.row(0)\nt[:] = x[0] * w[0]\n"
    "loss = (kept.t * kept.t).sum()\n",
}


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in REFUSED.items()])
def test_a_refused_write_gets_memory_of_its_own(fixed, body):
    source = BEGINNING + body + END
    assert fixed(source) != source
    assert verdict(source, fixed(source)) in ("mended", "refused", "unmeasured")  # never harmed, nor left


def test_the_result_of_a_function_is_a_tensor_of_its_own(fixed):
    source = BEGINNING + SAME + "h = x * w\nt = Same.apply(h)\nt *= x\nloss = (t + h).sum()\n" + END
    assert fixed(source) == source.replace("t *= x", "t = t * x")


def test_both_names_of_the_result_of_a_function_see_the_write(fixed):
    source = BEGINNING + SAME + "h = x * w\nt = Same.apply(h)\nu = t\nt *= x\nloss = (t + u).sum()\n" + END
    assert fixed(source) == source.replace("Same.apply(h)", "Same.apply(h).clone()")


LEFT = {
    "the view is read as what it is a view of": "t = turned(x * w)\nu = t\nloss = (t * t).sum()\n",
    "an update of a leaf's own rows": "with torch.no_grad():\n    cleared(w[0])\nloss = (w * x).sum()\n",
}


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in LEFT.items()])
def test_a_right_program_stays_as_it_is(fixed, body):
    source = BEGINNING + body + END
    assert fixed(source) == source


PARTS = {
    "a half": "a, b = h.chunk(2, dim=1)\nb.mul_(2)\nloss = (h * h).sum() + a.sum()\n",
    "both halves": "a, b = torch.split(h, 2, 1)\na += 1\nb *= 3\nloss = (h * h).sum() + (a * b).sum()\n",
    "a column": "a, b, c, d = h.unbind(1)\nc[0] = 0.25\nloss = (h * h).sum() + (a * b * c * d).sum()\n",
    "of what has no name": "g = [h]\na, b = g[0].T.split([1, 3])\nb.sub_(1)\nloss = (h * h).sum() + a.sum()\n",
    "of a name that is bound anew": "g = h\nh, b = h.chunk(2, 1)\nb += x[:, :2]\nloss = (g * g).sum() + h.sum()\n",
}


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in PARTS.items()])
def test_parts_that_are_seen_through_the_whole(fixed, body):
    source = BEGINNING + "h = x * w\n" + body + END
    text = fixed(source)
    assert "narrow(" in text or "select(" in text
    assert verdict(source, text) == "mended"


RUNNING = """import torch
from torch import nn


class Whitened(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.register_buffer("running", torch.eye(channels, dtype=torch.float64).expand(groups, channels, channels))
        self.register_buffer("once", torch.ones(1, dtype=torch.float64).expand(3))

    def forward(self, t):
        if self.training:
            with torch.no_grad():
                self.running.mul_(0.9).add_(t.detach() @ t.detach().mT, alpha=0.1)
        return (self.running @ t).sum() * self.once.sum()


x = torch.linspace(0.2, 1.3, 8, dtype=torch.float64).reshape(2, 2, 2).requires_grad_()
leaves = [x]
layer = nn.Sequential(Whitened(2, 2))
for _ in range(2):
    loss = layer(x * 1.0)
loss.backward()
"""


def test_expanded_memory_of_a_buffer_is_copied_where_it_is_registered(fixed):
    text = fixed(RUNNING)
    assert text == RUNNING.replace("channels, channels))", "channels, channels).clone())")
    assert not run(text).error
