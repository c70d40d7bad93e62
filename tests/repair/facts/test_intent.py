"""Is a write to a leaf an update of it, or a step of the computation? What the written value is made of decides."""

from __future__ import annotations

import pytest

HEAD = """\
import torch
from torch import nn

w = torch.randn(3, requires_grad=True)
fc = nn.Linear(3, 3)
"""

UPDATES = {
    "a gradient through a function": """
def change(w):
    g = w.grad
    return -0.1 * g

w.square().sum().backward()
w += change(w)
w.square().sum().backward()
""",
    "a gradient from a list": """
(w.square().sum() + fc.weight.sum()).backward()
found = {"w": w.grad, "b": None}
w.sub_(found["w"], alpha=0.1)
print(w.tanh().sum())
""",
    "a leaf that an optimizer steps, in a closure": """
optimizer = torch.optim.LBFGS([w], max_iter=2)

def closure():
    w.clamp_(0, 1)
    optimizer.zero_grad()
    loss = fc(w).square().sum()
    loss.backward()
    return loss

optimizer.step(closure)
""",
    "parts of a parameter": """
for part in fc.weight.chunk(3):
    part.mul_(2)
fc(w).sum().backward()
""",
    "a parameter made of other parameters": """
def folded(a, b):
    return a.weight * b.weight[0]

small = nn.Linear(3, 3)
small.weight[:] = folded(fc, small)
small(torch.ones(3)).sum().backward()
""",
}

STEPS = {
    "a layer's result": """
w[0] = fc(torch.ones(3))[0]
(w * 2).sum().backward()
""",
    "parts of what is computed with a parameter": """
whole = fc.weight * w
for part in whole:
    part.mul_(2)
whole.sum().backward()
""",
    "the same in a function": """
def first(x):
    return fc(x)[0]

w[0] = first(torch.ones(3))
(w * 2).sum().backward()
""",
    "a gradient that has a graph": """
(g,) = torch.autograd.grad((fc(w) ** 2).sum(), w, create_graph=True)
v = torch.ones(3, requires_grad=True)
v -= g
(v**2).sum().backward()
""",
}


@pytest.mark.parametrize("case", UPDATES)
def test_an_update_is_made_outside_the_graph(fixed, case):
    after = fixed(HEAD + UPDATES[case])
    assert "with torch.no_grad():" in after
    exec(after, {})


@pytest.mark.parametrize("case", STEPS)
def test_a_step_of_the_computation_is_not(fixed, case):
    after = fixed(HEAD + STEPS[case])
    assert "no_grad" not in after
    exec(after, {})  # PyTorch refuses the program as it was


def test_what_a_network_computes_is_no_update_of_a_parameter(fixed):
    """Under no_grad the network that computes the value would get no gradient."""
    program = """
small = nn.Linear(3, 3)

def loss_of(x):
    small.weight[0] = 2 * fc(x)
    return small(torch.ones(3)).sum()

loss_of(torch.ones(3)).backward()
"""
    assert "no_grad" not in fixed(HEAD + program)
