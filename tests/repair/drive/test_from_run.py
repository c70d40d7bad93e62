"""Repairs that need a run, as a user starts it: lists for tables, and states that another file keeps."""

from __future__ import annotations

import pytest

import forks

MAIN = """import torch
from filters import smooth

torch.manual_seed(0)
weight = torch.nn.Parameter({weight})
loss = smooth(torch.rand(5, 3), weight).pow(2).sum()
loss.backward()
print("RESULT", round(loss.item(), 4))
"""
FILTERS = """import torch


def smooth(x, weight):
    # the first row is what it is
    out = torch.zeros(len(x), 3)
    out[0] = {first}
    for t in range(1, len(x)):
        out[t] = torch.sin(out[t - 1]) * weight
    return out
"""
LIST = """import torch


def smooth(x, weight):
    # the first row is what it is
    out = [x[0]]
    for t in range(1, len(x)):
        out.append(torch.sin(out[t - 1]) * weight)
    out = torch.stack(out)
    return out
"""


def repaired(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    done = forks.python(folder, "-m", "outplace", "run", "--fix", "main.py")
    assert done.returncode == 0, done.stderr
    return done, {name: (folder / f"{name}.py").read_text() for name in files}


def test_a_table_becomes_a_list(tmp_path):
    main = MAIN.format(weight="torch.rand(3)")
    done, texts = repaired(tmp_path, main=main, filters=FILTERS.format(first="x[0]"))
    assert texts == {"main": main, "filters": LIST}
    assert "Collect the entries of `out` in a list, and stack them after the loop" in done.stderr
    assert "gradients: equal to the original program" in done.stderr


def test_not_where_an_assignment_has_broadcast(tmp_path):
    filters = FILTERS.format(first="x[0, 0]")
    _, texts = repaired(tmp_path, main=MAIN.format(weight="torch.rand(3)"), filters=filters)
    assert texts["filters"] == filters.replace("out[t - 1]", "out[t - 1].clone()")


TRAINER = """import torch


class Trainer:
    def __init__(self):
        self.cell = torch.nn.GRUCell(3, 4)
        self.opt = torch.optim.SGD(self.cell.parameters(), lr=0.1)
        self.h = torch.zeros(2, 4)

    def round(self, x):
        self.h = self.cell(x, self.h)
        self.opt.zero_grad()
        self.h.pow(2).sum().backward(retain_graph=True)
        self.opt.step()
"""
ROUNDS = """import torch
from trainer import Trainer

torch.manual_seed(0)
trainer = Trainer()
for number in range(3):
    trainer.round(torch.full((2, 3), float(number)))
"""


def test_a_state_is_detached_where_its_object_steps(tmp_path):
    _, texts = repaired(tmp_path, main=ROUNDS, trainer=TRAINER)
    assert texts == {"main": ROUNDS, "trainer": TRAINER + "        self.h = self.h.detach()\n"}


MEMORY = """import torch
from torch import nn


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.Parameter(torch.zeros(4, 3), requires_grad=False)

    def get(self):
        return self.rows

    def set(self, places, values):
        self.rows[places] = values
"""
MODEL = """import torch
from memory import Memory
from torch import nn

torch.manual_seed(0)
memory, embed = Memory(), nn.Linear(3, 2)
loss = 0.0
for places in ([0, 1], [1, 2]):
    table = embed(memory.get())
    loss = loss + table.pow(2).sum()
    memory.set(places, torch.rand(2, 3))
loss.backward()
"""


def test_what_a_getter_hands_out_is_copied_for_the_backward(tmp_path):
    done, texts = repaired(tmp_path, main=MODEL, memory=MEMORY)
    assert texts == {"main": MODEL.replace("embed(memory.get())", "embed(memory.get().clone())"), "memory": MEMORY}
    assert "gradients: equal to the original program" in done.stderr


HEAD = """import torch
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(1, 3))

    def squash(self, x):
        return torch.tanh(x)

    def forward(self, x):
        return self.squash(x) @ self.weight.T

    @torch.no_grad()
    def rescale(self):
        self.weight.mul_(0.5)
"""
SCALED = """import torch
from head import Head

torch.manual_seed(0)
body, head = torch.nn.Linear(2, 3), Head()
values = head(body(torch.rand(4, 2)))
head.rescale()
loss = (values - head.weight.detach().mean()).pow(2).sum()
loss.backward()
"""


def test_weights_that_are_scaled_by_hand_are_kept_as_they_were(tmp_path):
    _, texts = repaired(tmp_path, main=SCALED, head=HEAD)
    assert texts == {"main": SCALED, "head": HEAD.replace("self.weight.T", "self.weight.T.clone()")}


TABLE = """import torch
from torch import nn

torch.manual_seed(0)
table = nn.Parameter(torch.rand(4, 3))
body = nn.Linear(2, 3)


def scores(x, rows):
    with torch.no_grad():
        {write}
    return body(x) @ table.t()


loss = scores(torch.rand(5, 2), [0, 1]).pow(2).sum() + scores(torch.rand(5, 2), [1, 2]).sum()
loss.backward()
print("RESULT", table.grad.sum().item())
"""


@pytest.mark.parametrize("write", ["table[rows] = 0.0", "table[rows] = table[rows].clamp(max=0.5)"])
def test_rows_that_stay_what_they_are_about_are_kept_for_the_backward(tmp_path, write):
    main = TABLE.format(write=write)
    _, texts = repaired(tmp_path, main=main)
    assert texts["main"] == main.replace("@ table.t()", "@ table.clone().t()")


@pytest.mark.parametrize("write", ["table[rows] = torch.rand(len(rows), table.shape[1])", "table[rows[0]].normal_()"])
def test_rows_that_are_given_to_others_must_not_get_the_gradients_of_what_they_held(tmp_path, write):
    main = TABLE.format(write=write)
    (tmp_path / "main.py").write_text(main)
    done = forks.python(tmp_path, "-m", "outplace", "run", "--fix", "main.py")
    assert done.returncode == 1
    assert (tmp_path / "main.py").read_text() == main
