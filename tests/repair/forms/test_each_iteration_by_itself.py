"""State that loop iterations carry: `outplace fix` detaches it where each iteration surely trains by itself. The
repaired program leaves the same weights as one that was written rightly."""

from __future__ import annotations

import pytest
import torch

from conftest import repaired

PROGRAM = """
import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.GRUCell(3, 4), nn.Linear(4, 1)
opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
h = torch.zeros(2, 4)
for _ in range(4):
    h = cell(torch.randn(2, 3), h)
    loss = head(h).pow(2).mean()
    opt.zero_grad()
    loss.backward(retain_graph=True)
    opt.step()
"""
DETACHED = "    opt.step()\n    h = h.detach()\n"


def weights(text: str) -> list[float]:
    known: dict[str, object] = {}
    exec(text, known)
    nets = (one for one in known.values() if isinstance(one, torch.nn.Module))
    return [number for net in nets for weight in net.parameters() for number in weight.flatten().tolist()]


FUNCTION = PROGRAM.replace(
    "h = torch.zeros(2, 4)\n",
    """

def train(x, h):
    h = cell(x, h)
    loss = head(h).pow(2).mean()
    opt.zero_grad()
    loss.backward(retain_graph=True)
    opt.step()
    return h


h = torch.zeros(2, 4)
""",
)
FUNCTION = FUNCTION[: FUNCTION.index("    h = cell(torch.randn")] + "    h = train(torch.randn(2, 3), h)\n"


def test_it_is_detached_after_the_step():
    right = PROGRAM.replace("    opt.step()\n", DETACHED)
    done = repaired(PROGRAM)
    assert done.text == right
    assert weights(done.text) == weights(right.replace("retain_graph=True", ""))


def test_it_is_detached_where_a_function_returns_it():
    done = repaired(FUNCTION)
    assert done.text.endswith("    h = train(torch.randn(2, 3), h)\n    h = h.detach()\n")
    assert weights(done.text) == weights(PROGRAM.replace("    opt.step()\n", DETACHED))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    opt.zero_grad()\n", ""),  # gradients are summed up over iterations
        ("    opt.step()\n", "    if loss > 0.01:\n        opt.step()\n"),  # perhaps those of several iterations
        ("    opt.step()\n", "    opt.step()\nhead(h).mean().backward()\n"),  # a later loss trains through it
        ("head(h)", "head(h.detach())"),  # nothing is wrong
        ("loss = head(h)", "loss = extra(h)"),  # nobody knows what it trains
        ("h = cell(torch.randn(2, 3), h)\n", "h = cell(torch.randn(2, 3), h)\n    print(cell.bias_ih.grad)\n"),
    ],
)
def test_left_where_another_meaning_is_possible(old, new):
    assert old in PROGRAM
    text = PROGRAM.replace(old, new)
    assert repaired(text).text == text


def test_left_where_only_the_state_trains_a_network():
    text = PROGRAM.replace("loss = head(h)", "loss = head(before)").replace("    h = cell", "    before, h = h, cell")
    assert repaired(text).text == text


def test_a_list_that_grows_is_left():
    text = PROGRAM.replace("h = torch.zeros(2, 4)\n", "kept = []\n").replace(
        "    h = cell(torch.randn(2, 3), h)\n    loss = head(h).pow(2).mean()\n",
        "    kept.append(cell(torch.randn(2, 3)))\n    loss = head(torch.stack(kept)).pow(2).mean()\n",
    )
    assert repaired(text).text == text
