"""One graph uses a tensor before and after a write: no repair may lose either value, nor its gradient."""

from __future__ import annotations

import pytest
from differences import verdict
from in_files import joined, repaired_files

LEAVES = """import torch
from stem import *

x = torch.linspace(0.2, 1.3, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
w = torch.linspace(1.1, 0.4, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
leaves = [x, w]

"""
NET = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = Stem()

    def forward(self, x, w):
        self.stem(x, w)
        return {result}

loss = Net()(x, w)
loss.backward()
"""
STEM = """import torch

def first(t):
    return t[0]

class Stem(torch.nn.Module):
    def forward(self, x, w):
        h = x * w
        {write}
        self.h = h
"""


@pytest.mark.parametrize("write", ["w.pow_(2)", "w.fill_diagonal_(0.1)", "first(w).mul_(2)", "w.addcmul_(h, h)"])
@pytest.mark.parametrize("result", ["w.sum() + self.stem.h.sum()", "(w * w).sum()"])
def test_a_module_writes_a_leaf_that_its_caller_goes_on_with(write, result):
    """Under `no_grad` the result of the write would lose its gradient."""
    stem, main = STEM.format(write=write), LEAVES + NET.format(result=result)
    after = joined(*repaired_files(stem, main))
    assert verdict(joined(stem, main), after) in ("mended", "left")
    assert "no_grad" not in after


UPDATE = """import torch

w = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
loss = (w * w).sum()
loss.backward()
w.clamp_(0, 0.5)
print(w.sum())
"""


def test_an_update_after_the_backward_goes_under_no_grad(fixed):
    assert "with torch.no_grad():\n    w.clamp_(0, 0.5)" in fixed(UPDATE)


HEAD = """import torch
import torch.nn.functional as F

x = torch.linspace(0.2, 1.3, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
w = torch.linspace(1.1, 0.4, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
leaves = [x, w]
"""
END = "loss.backward()\n"
SEEN = {
    "a list has the leaf": "kept = [w]\nw = F.leaky_relu(w, 0.2, True)\np, q = w.chunk(2, 1)\np.mul_(q)\n"
    "loss = torch.cat([p, q], 1).sum() + sum(one.sum() for one in kept)\n",
    "a view is written between the copy and its use": "h = x * w\ng = h.view(4, 3).view(3, 4)\ng.exp_()\na = h\n"
    "torch.mul(g, a, out=g)\nb = torch.mul(a, a)\na[a > 1] = 0.25\nloss = a.sum() + (b * b).sum()\n",
}


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in SEEN.items()])
def test_who_else_sees_the_write_still_sees_it(fixed, body):
    source = HEAD + body + END
    assert not verdict(source, fixed(source)).startswith("HARMED")
