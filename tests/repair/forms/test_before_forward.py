"""Weights that are swapped for a look, and back, between a forward and the backward that a caller runs."""

from __future__ import annotations

from pathlib import Path

import forks

PROGRAM = """
import torch
from torch import nn

torch.manual_seed(0)


class Averaged:
    def __init__(self, net):
        self.weights = list(net.parameters())
        self.mean = [w.detach() + 0.1 for w in self.weights]

    @torch.no_grad()
    def put(self, values):
        for w, value in zip(self.weights, values):
            w.copy_(value)


class Task:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        self.averaged = Averaged(self.net)

    def loss(self, x):
        return self.net(x).square().mean()

    def look(self, x):
        own = [w.detach().clone() for w in self.averaged.weights]
        self.averaged.put(self.averaged.mean)
        seen = self.loss(x).item()
        self.averaged.put(own)
        return seen

    def training_step(self, x):
        loss = self.loss(x)
        seen = self.look(x)
        return loss, seen


task = Task()
opt = torch.optim.SGD(task.net.parameters(), lr=0.1)
numbers = []
for _ in range(3):
    loss, seen = task.training_step(torch.randn(5, 3))
    opt.zero_grad()
    loss.backward()
    opt.step()
    numbers += [loss.item(), seen]
print("RESULT", *numbers)
"""
LOOK = "        seen = self.look(x)\n"
LOSS = "        loss = self.loss(x)\n"


def repaired_by_a_run(source: str, path: Path) -> str:
    path.write_text(source)
    forks.python(path.parent, "-m", "outplace", "run", "--fix", path.name)
    return path.read_text()


def test_the_look_goes_first_where_the_weights_come_back(tmp_path: Path) -> None:
    assert repaired_by_a_run(PROGRAM, tmp_path / "a.py") == PROGRAM.replace(LOSS + LOOK, LOOK + LOSS)


def test_not_where_they_do_not_come_back(tmp_path: Path) -> None:
    source = PROGRAM.replace("        self.averaged.put(own)\n", "")
    assert LOOK + LOSS not in repaired_by_a_run(source, tmp_path / "a.py")
