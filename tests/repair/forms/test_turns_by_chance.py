"""Random trainings of networks in turn: a safe fix of `outplace fix` leaves each of them what it was meant to be.

What was meant is computed by the original program itself, with a copy kept of all that is saved for backward. To
compute a loss later is another training by its own words: that is not compared.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from test_in_turn import HEAD

from conftest import repaired

COUNT = 40
VALUES = {
    "fake": "G(z)",
    "code": "E(x)",
    "both": "G(E(x))",
    "score": "torch.tanh(D(fake))",
    "real": "torch.tanh(D(x))",
    "other": "D(code)",
}
LOSSES = [
    "score - real",
    "-score",
    "both - x",
    "other + fake",
    "code * score",
    "fake - z",
    "real + other",
    "both * score",
]
UPDATES = [
    "clip({net}.w)",
    "{net}.w.data.mul_(0.9)",
    "swap({net}.w)\n    seen.append({net}(x).item())\n    swap({net}.w)",
]
HELPERS = """
kept, seen = {}, []


@torch.no_grad()
def clip(w):
    w.clamp_(-0.7, 0.7)


@torch.no_grad()
def swap(w):
    kept[w], old = w.clone(), kept.get(w, torch.full((1, 1), 0.3))
    w.copy_(old)


"""


def training(seed: int) -> str:
    """A program: values, losses early or late, and for each optimizer a backward and a step."""
    choose = random.Random(seed)
    nets = choose.sample("GDE", 3)
    given = [nets[:1], nets[1:2], nets[2:]] if choose.random() < 0.6 else [nets[:1], nets[1:]]
    if choose.random() < 0.15:
        given[0] = [*given[0], nets[-1]]  # two optimizers hold the same weights
    made = "".join(
        f"opt{n} = torch.optim.SGD([{', '.join(f'*{net}.parameters()' for net in one)}], lr=0.1)\n"
        for n, one in enumerate(given)
    )
    body = [f"{name} = {value}" for name, value in VALUES.items()]
    losses = [
        f"loss{n} = ({choose.choice(LOSSES)}).pow(2).sum() + ({choose.choice(LOSSES)}).sum()" for n in range(len(given))
    ]
    early = [choose.random() < 0.4 for _ in given]
    body += [loss for loss, now in zip(losses, early, strict=True) if now]
    for n, loss in enumerate(losses):
        part = [f"opt{n}.zero_grad()"] if choose.random() < 0.9 else []
        part += [] if early[n] else [loss]
        choose.shuffle(part)
        if choose.random() < 0.15:
            part.append(choose.choice(UPDATES).format(net=choose.choice(nets)))
        body += [*part, f"loss{n}.backward(retain_graph=True)", f"opt{n}.step()"]
    loop = "".join(f"    {line}\n" for line in body)
    data = "for z, x in ((0.5, 1.1), (-0.7, 0.8), (0.9, -0.4)):\n    z, x = torch.tensor([[z]]), torch.tensor([[x]])\n"
    return f"{HEAD}{HELPERS}G, D, E = Scalar(0.6), Scalar(0.9), Scalar(-0.8)\n{made}{data}{loop}"


def trained(source: str) -> list[float]:
    known: dict[str, Any] = {}
    try:
        exec(source, known)
    finally:
        torch.set_default_dtype(torch.float32)
    return [known[net].w.item() for net in "GDE"] + known["seen"]


def fixed_and_meant(seed: int) -> tuple[list[str], list[float], list[float]] | None:
    """What was done, and what the program then leaves and was to leave; None where something is left to a person."""
    source = training(seed)
    done = repaired(source)
    if not done.done:
        done = repaired(source, unsafe=True)
        if not all(candidate.title.startswith("Step after") for _, candidate in done.done):
            return None  # another training by its own words
    if done.left or not done.done:
        return None
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.detach().clone(), lambda kept: kept):
        meant = trained(source)
    return [candidate.title for _, candidate in done.done], trained(done.text), meant


@pytest.mark.parametrize("part", range(4))
def test_safe_fixes_keep_the_training(part):
    kept = 0
    for seed in range(part * COUNT // 4, (part + 1) * COUNT // 4):
        outcome = fixed_and_meant(seed)
        if outcome is not None and not any(title.startswith("Compute") for title in outcome[0]):
            kept += 1
            assert outcome[1] == pytest.approx(outcome[2], rel=1e-9), f"{outcome[0]}\n{training(seed)}"
    assert kept  # else nothing was compared
