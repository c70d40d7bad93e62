"""The record is bounded, and it keeps no tensor alive."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

if not Path("/proc/self/statm").exists():
    pytest.skip("reads the resident size from /proc", allow_module_level=True)


def run(source: str, folder: Path, *, plain: bool = False) -> str:
    script = folder / "program.py"
    script.write_text(source)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OUTPLACE")}
    command = [] if plain else ["-m", "outplace", "run"]
    done = subprocess.run(
        [sys.executable, *command, str(script)], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# Enough statements and writes a step that every bounded list of the record is full, and has been halved, before the
# first of the two measurements.
LONG = """
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def gate(self, x):
        return x * self.weight

    def forward(self, x):
        for _ in range(16):
            x = self.gate(x)
            x = x - 0.5
            x.mul_(0.5)
        return x.sum()


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1, 20_001):
    optimizer.zero_grad()
    loss = model(torch.ones(4))
    loss.backward()
    optimizer.step()
    if step in (5_000, 10_000, 15_000, 20_000):
        print(resident())
"""


def test_the_resident_size_stays_flat_over_20000_steps(tmp_path: Path) -> None:
    sizes = [float(line) for line in run(LONG, tmp_path).split()]
    shown = ", ".join(f"{size:.1f}" for size in sizes)
    assert sizes[-1] - sizes[0] < 4, f"resident size in MiB after 5, 10, 15 and 20 thousand steps: {shown}"


ALIVE = """
import gc
import weakref

import torch
from torch import nn

gc.disable()
born = []


def watched(tensor, what):
    born.append((what, weakref.ref(tensor)))
    return tensor


def report(moment):
    alive = [what for what, ref in born if ref() is not None]
    print(moment, alive)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        h = watched(self.fc(x), "hidden")
        h = watched(h * self.scale, "scaled")
        h += 1
        h = watched(self.relu(h), "relu")
        buffer = watched(torch.zeros(2, 4), "buffer")
        buffer[0] = h[0]
        watched(buffer[1], "view").zero_()
        torch.add(h[0].detach(), 1, out=watched(torch.empty(4), "out"))
        watched(torch.ones(4, requires_grad=True), "leaf")
        return watched(buffer.sum() + h.sum(), "sum")


def train():
    net = Net()
    for name, parameter in net.named_parameters():
        watched(parameter, name)
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(3):
        born[:] = [entry for entry in born if entry[1]() is not None]
        optimizer.zero_grad()
        loss = net(watched(torch.ones(3, 4), "input"))
        report("before backward")
        loss.backward()
        report("after backward")
        optimizer.step()
        del loss
        report("after step")
    for state in optimizer.state.values():
        watched(state["exp_avg"], "exp_avg")
    with torch.no_grad():
        net.scale.mul_(2)
    report("after training")
    del parameter


train()
report("at the end")


def dropped():
    a = watched(torch.ones(4, requires_grad=True), "a")
    b = watched(a.exp(), "b")
    b += 1
    a = b = None
    report("no backward")


dropped()
gc.collect()  # an optimizer and its hooks are a cycle, with or without outplace
report("collected")
"""


def test_tensors_live_no_longer_than_without_outplace(tmp_path: Path) -> None:
    plain = run(ALIVE, tmp_path, plain=True)
    assert run(ALIVE, tmp_path) == plain
    assert "after step ['scale', 'fc.weight', 'fc.bias']" in plain  # the intermediate tensors die at once
    assert plain.splitlines()[-1] == "collected []"
