"""A loss that goes backward before an update by hand and after it: sharpness-aware training, an extra gradient."""

from __future__ import annotations

from typing import Any

import pytest

from conftest import repaired

HEAD = """
import torch
from torch import nn

torch.manual_seed(0)


class Climb(torch.optim.Optimizer):
    def __init__(self, params, base, **settings):
        super().__init__(params, settings)
        self.base = base(self.param_groups, lr=settings["lr"])

    @torch.no_grad()
    def up(self):
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["step"] = 0.1 * p.grad
                p.add_(self.state[p]["step"])
        self.zero_grad()

    @torch.no_grad()
    def down(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(self.state[p]["step"])
        self.base.step()
        self.zero_grad()


net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
x, y = torch.randn(6, 3), torch.randn(6, 1)
losses = []
"""
END = "found = [losses, *[p.detach().flatten().tolist() for p in net.parameters()]]\n"
OPTIMIZER = """opt = Climb(net.parameters(), torch.optim.SGD, lr=0.1)
for _ in range(3):
    loss = (net(x) - y).square().mean()
    loss.backward(retain_graph=True)
    opt.up()
    loss.backward()
    opt.down()
    losses.append(loss.item())
"""
BY_HAND = """for _ in range(3):
    out = net(x)
    loss = (out - y).square().mean()
    losses.append(loss.item())
    loss.backward(retain_graph=True)
    with torch.no_grad():
        for p in net.parameters():
            p -= 0.1 * p.grad
            p.grad = None
    loss.backward()
    with torch.no_grad():
        for p in net.parameters():
            p -= 0.05 * p.grad
            p.grad = None
"""


def after(source: str) -> list[list[float]]:
    known: dict[str, Any] = {}
    exec(source, known)
    return known["found"]


@pytest.mark.parametrize(
    ("body", "old", "right"),
    [
        (OPTIMIZER, "    loss.backward()\n", "    again = (net(x) - y).square().mean()\n    again.backward()\n"),
        (BY_HAND, "    loss.backward()\n", "    again = (net(x) - y).square().mean()\n    again.backward()\n"),
    ],
)
def test_the_second_is_that_of_the_new_weights_and_the_loss_keeps_its_value(body: str, old: str, right: str) -> None:
    done = repaired(HEAD + body + END)
    assert not done.left
    by_hand = after(HEAD + body.replace(old, right).replace("retain_graph=True", "") + END)
    assert after(done.text) == [pytest.approx(values, rel=1e-5) for values in by_hand]


@pytest.mark.parametrize(
    ("body", "old", "new"),
    [
        (
            BY_HAND,
            "p.grad = None\n" * 1 + "    loss.backward()\n    with",
            "p.grad = None\n    loss.backward()\n    print(out)\n    with",
        ),
        (OPTIMIZER, "    loss.backward(retain_graph=True)", "    (2 * loss).backward(retain_graph=True)"),
    ],
)
def test_not_if_another_value_would_change_or_another_loss_went_before(body: str, old: str, new: str) -> None:
    assert old in body
    source = HEAD + body.replace(old, new) + END
    assert repaired(source).text == source
