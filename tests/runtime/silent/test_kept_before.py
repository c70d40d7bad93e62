"""A tensor that a function keeps and then writes, and an argument that several calls of one step rescale."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases.conftest import Zygote
from cases.conftest import zygote as zygote

HISTORY = """
import torch

kept, h = [], torch.arange(3.0)
for step in range(3):
    h = h + 1
    kept.append({"h": h})
    h[h > 2] = 0
print("FIRST", kept[0]["h"].tolist())
"""
LABELS = """
import torch


def collate(rows):
    batch = {"ids": torch.stack(rows)}
    batch["labels"] = batch["ids"]
    batch["ids"][batch["ids"] > 1] = 0
    return batch


print("FIRST", collate([torch.arange(1.0, 4.0)])["labels"][0].tolist())
"""
MOMENTS = """
import torch


class Moments:
    def __init__(self):
        self.mean = torch.ones(3)

    def update(self, x):
        before = self.mean
        self.mean += x - self.mean
        return before * 1.0


print("FIRST", Moments().update(torch.arange(3.0)).tolist())
"""
SCALES = """
import torch


def scaled(boxes, stride):
    boxes /= stride
    return boxes


net = torch.nn.Linear(2, 2)
boxes = torch.tensor([4.0, 8.0])
loss = sum((net(torch.ones(2)) - scaled(boxes, stride)).abs().sum() for stride in (2, 4))
loss.backward()
print("FIRST", boxes.tolist())
"""
PROPOSAL = """
import torch


def propose(state):
    proposal = list(state)
    for i in range(len(proposal)):
        proposal[i] += 1
    return [(a - b).tolist() for a, b in zip(proposal, state)]


print("FIRST", propose([torch.zeros(2)])[0])
"""
ROLLOUT = """
import torch


def rollout(x, steps):
    for _ in range(steps):
        x[:] = x + 1
        yield x


print("FIRST", list(rollout(torch.zeros(2), 3))[0].tolist())
"""
GATE = """
import torch


class Gate:
    def __call__(self, x):
        x[x > 1] = 0
        return x


gate, pitch = Gate(), torch.arange(3.0)
gated = gate(pitch)
voiced = gated > 0
print("FIRST", pitch.tolist(), voiced.tolist())
"""

BUGS = {
    "a copied container": (PROPOSAL, "[0.0, 0.0]", "copied-container-written"),
    "one tensor that is yielded": (ROLLOUT, "[3.0, 3.0]", "same-tensor-appended"),
    "an object that is called": (GATE, "[0.0, 1.0, 0.0]", "tensor-under-two-names"),
    "a history": (HISTORY, "[1.0, 2.0, 0.0]", "tensor-under-two-names"),
    "labels": (LABELS, "[1.0, 0.0, 0.0]", "tensor-under-two-names"),
    "an attribute and a name": (MOMENTS, "[0.0, 1.0, 2.0]", "tensor-under-two-names"),
    "one argument of several calls": (SCALES, "[0.5, 1.0]", "rescaled-again"),
}
LEGAL = {
    "copied tensors": (PROPOSAL.replace("list(state)", "[x.clone() for x in state]"), "[1.0, 1.0]"),
    "assigned anew": (PROPOSAL.replace("proposal[i] += 1", "proposal[i] = proposal[i] + 1"), "[1.0, 1.0]"),
    "copies that are yielded": (ROLLOUT.replace("yield x", "yield x.clone()"), "[1.0, 1.0]"),
    "yielded and left": (ROLLOUT.replace("list(rollout(torch.zeros(2), 3))[0].tolist()",
        "[x.sum().item() for x in rollout(torch.zeros(2), 3)]"), "[2.0, 4.0, 6.0]"),
    "an object that copies": (GATE.replace("gate(pitch)", "gate(pitch.clone())"), "[0.0, 1.0, 2.0]"),
    "a history of copies": (HISTORY.replace('"h": h}', '"h": h.clone()}'), "[1.0, 2.0, 3.0]"),
    "written out of place": (HISTORY.replace("h[h > 2] = 0", "h = h.masked_fill(h > 2, 0)"), "[1.0, 2.0, 3.0]"),
    "a list that is filled": (
        HISTORY.replace('kept.append({"h": h})', "kept.append(h)")
        .replace("h[h > 2] = 0", "h.fill_(7.0)")
        .replace('kept[0]["h"]', "kept[0]"),
        "[7.0, 7.0, 7.0]",
    ),
    "labels of their own": (LABELS.replace('= batch["ids"]\n', '= batch["ids"].clone()\n'), "[1.0, 2.0, 3.0]"),
    "a handle": (
        MOMENTS.replace("self.mean += x - self.mean", "before += x - before").replace("before * 1.0", "self.mean"),
        "[0.0, 1.0, 2.0]",
    ),
    "a copy before": (MOMENTS.replace("before = self.mean", "before = self.mean.clone()"), "[1.0, 1.0, 1.0]"),
    "a copy for each call": (SCALES.replace("scaled(boxes, ", "scaled(boxes.clone(), ", 2).replace(
        "def scaled(boxes.clone(), ", "def scaled(boxes, "), "[4.0, 8.0]"),
    "a decay": (SCALES.replace("boxes /= stride", "boxes *= 0.5"), "[1.0, 2.0]"),
    "a position": (SCALES.replace("boxes /= stride", "boxes += 1"), "[6.0, 10.0]"),
}  # fmt: skip


def run(zygote: Zygote, folder: Path, source: str) -> tuple[list[str], str]:
    (folder / "program.py").write_text(source)
    done = zygote.run(folder, "program.py")
    assert done.status == 0, done.output
    return [one["rule"] for one in done.report["diagnoses"]], done.output


@pytest.mark.parametrize("name", BUGS)
def test_what_is_kept_and_then_written_is_told(name: str, zygote: Zygote, tmp_path: Path):
    source, first, rule = BUGS[name]
    found, output = run(zygote, tmp_path, source)
    assert f"FIRST {first}" in output
    assert found == [rule]


@pytest.mark.parametrize("name", LEGAL)
def test_legal_twins_are_not(name: str, zygote: Zygote, tmp_path: Path):
    source, first = LEGAL[name]
    found, output = run(zygote, tmp_path, source)
    assert f"FIRST {first}" in output
    assert found == []
