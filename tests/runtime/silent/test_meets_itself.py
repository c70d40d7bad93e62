"""Two names of one memory that meet in one operation, as a run sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases.conftest import Zygote
from cases.conftest import zygote as zygote

HEAD = """
import copy
import torch
import torch.nn.functional as F

net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
x = torch.arange(12.0).view(4, 3)


def train():
    optimizer.zero_grad()
    net(x).pow(2).mean().backward()
    optimizer.step()


"""

BUGS = {
    "an anchor in a dict": """
anchors = {n: p.detach() for n, p in net.named_parameters()}
for _ in range(3):
    far = sum((p - anchors[n]).abs().sum() for n, p in net.named_parameters()).item()
    train()
print("ZERO", far == 0)
""",
    "a loss of both": """
start = [p.data for p in net.parameters()]
for _ in range(3):
    far = sum(F.mse_loss(p, s) for p, s in zip(net.parameters(), start)).item()
    train()
print("ZERO", far == 0)
""",
    "only after the training": """
start = [p.data for p in net.parameters()]
train()
train()
far = sum((s - p.data).abs().sum() for p, s in zip(net.parameters(), start)).item()
print("ZERO", far == 0)
""",
    "buffers that are put back": """
def probe(data):
    saved = dict(net.named_buffers())
    with torch.no_grad():
        net(data)
    for name, buffer in net.named_buffers():
        buffer.copy_(saved[name])


before = net[1].num_batches_tracked.item()
probe(x + 100)
probe(x + 100)
print("ZERO", net[1].num_batches_tracked.item() != before)
""",
}

LEGAL = {
    "a copy": BUGS["an anchor in a dict"].replace("p.detach()", "p.detach().clone()"),
    "a copy in the loss": BUGS["a loss of both"].replace("p.data for", "p.data.clone() for"),
    "buffers of their own": BUGS["buffers that are put back"]
    .replace("dict(", "copy.deepcopy(dict(")
    .replace("named_buffers())\n", "named_buffers()))\n", 1),
    "a start that is not written": """
for _ in range(3):
    start = x
    moved = start
    for _ in range(2):
        far = (moved - start).abs().sum().item()
        moved = moved + 1
    train()
print("ZERO", far == 0)
""",
    "the trick of a score function": """
for _ in range(3):
    logp = net(x).log_softmax(-1)
    kept = logp.detach()
    loss = (logp - kept).exp().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("ZERO", False)
""",
    "no subtraction of tensors": """
class Odd:
    def __sub__(self, other):
        return 0


odd = Odd()
same = odd
print("ZERO", (odd - same) + len(set("ab") - set("a")) - 1 != 0)
""",
}


def run(zygote: Zygote, folder: Path, source: str) -> tuple[list[str], str]:
    (folder / "program.py").write_text(HEAD + source)
    done = zygote.run(folder, "program.py")
    assert done.status == 0, done.output
    return [one["rule"] for one in done.report["diagnoses"]], done.output


@pytest.mark.parametrize("name", BUGS)
def test_what_meets_itself_is_told(name: str, zygote: Zygote, tmp_path: Path):
    found, output = run(zygote, tmp_path, BUGS[name])
    assert "ZERO True" in output
    assert found == ["meets-itself"]


@pytest.mark.parametrize("name", LEGAL)
def test_legal_twins_are_not(name: str, zygote: Zygote, tmp_path: Path):
    found, output = run(zygote, tmp_path, LEGAL[name])
    assert "ZERO False" in output
    assert found == []
