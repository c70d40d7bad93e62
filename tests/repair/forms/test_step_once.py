"""Steps that come in every round of a loop, where the gradients are those of all rounds, or of one loss for all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ordering import ways

import forks
from conftest import repaired

OPTIMIZERS = """
loss = model(x).sum()
for opt in optimizers.values():
    opt.zero_grad()
    loss.backward(retain_graph=True)  # backward
    opt.step()  # step
print(loss)
"""
HEADS = """
opt.zero_grad()
for loss in model.losses(x):
    loss.backward(retain_graph=True)  # backward
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()  # step
    total += loss.item()
print(total)
"""


def test_one_backward_for_all_optimizers() -> None:
    text = ways(OPTIMIZERS)["Go backward once, for all optimizers"]
    assert text == (
        "loss = model(x).sum()\nfor opt in optimizers.values():\n    opt.zero_grad()\nloss.backward()\n"
        "for opt in optimizers.values():\n    opt.step()  # step\nprint(loss)\n"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("loss.backward(retain", "losses[opt].backward(retain"),  # each has its own
        ("retain_graph=True", "retain_graph=True, inputs=weights"),
        ("optimizers.values()", "map(make, parts)"),  # may be gone after one loop
        ("    opt.zero_grad()\n", "    opt.zero_grad()\n    x = x + 1\n"),
        ("    opt.zero_grad()\n", "    other.zero_grad()\n"),
    ],
)
def test_not_where_the_rounds_differ(old: str, new: str) -> None:
    assert old in OPTIMIZERS
    assert "Go backward once, for all optimizers" not in ways(OPTIMIZERS.replace(old, new))


def test_clipped_and_stepped_after_the_loop() -> None:
    text = ways(HEADS, loss_is_older=False)["Step once, after the loop"]
    assert text.endswith(
        "    loss.backward(retain_graph=True)  # backward\n    total += loss.item()\n"
        "nn.utils.clip_grad_norm_(model.parameters(), 1.0)\nopt.step()  # step\nprint(total)\n"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("opt.zero_grad()\n", ""),  # nobody says that the gradients are to be added
        ("retain_graph=True", ""),
        ("    nn.utils", "    opt.zero_grad()\n    nn.utils"),
        ("model.parameters(), 1.0", "model.parameters(), loss.item()"),
    ],
)
def test_not_where_a_round_may_be_meant_to_step(old: str, new: str) -> None:
    assert old in HEADS
    assert "Step once, after the loop" not in ways(HEADS.replace(old, new), loss_is_older=False)


PROGRAM = """
import torch
from torch import nn

torch.manual_seed(0)
trunk = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4))
heads = nn.ModuleList(nn.Linear(4, 2) for _ in range(3))
x = torch.randn(5, 3)


def losses():
    hidden = trunk(x)
    for head in heads:
        yield head(hidden).square().mean()


"""
PARTS = {
    "optimizers": (
        """
optimizers = [torch.optim.Adam(part.parameters(), lr=0.1) for part in (trunk, heads)]
for _ in range(3):
    loss = sum(losses())
    for opt in optimizers:
        opt.zero_grad()
        loss.backward(retain_graph=True)
        opt.step()
""",
        """
both = torch.optim.Adam([*trunk.parameters(), *heads.parameters()], lr=0.1)
for _ in range(3):
    both.zero_grad()
    loss = sum(losses())
    loss.backward()
    both.step()
""",
    ),
    "heads": (
        """
opt = torch.optim.SGD([*trunk.parameters(), *heads.parameters()], lr=0.1)
for _ in range(3):
    opt.zero_grad()
    for loss in losses():
        loss.backward(retain_graph=True)
        nn.utils.clip_grad_norm_(trunk.parameters(), 0.01)
        opt.step()
""",
        """
opt = torch.optim.SGD([*trunk.parameters(), *heads.parameters()], lr=0.1)
for _ in range(3):
    opt.zero_grad()
    sum(losses()).backward()
    nn.utils.clip_grad_norm_(trunk.parameters(), 0.01)
    opt.step()
""",
    ),
}
ENDING = (
    "print('RESULT', *torch.cat([p.detach().flatten() for p in (*trunk.parameters(), *heads.parameters())]).tolist())"
)


@pytest.mark.parametrize("name", PARTS)
def test_a_run_repairs_it(name: str, tmp_path: Path) -> None:
    """The weights are those of a program that was written rightly by hand, in another way."""
    wrong, right = (PROGRAM + part + ENDING + "\n" for part in PARTS[name])
    (tmp_path / "wrong.py").write_text(wrong)
    (tmp_path / "right.py").write_text(right)
    repairing = forks.python(tmp_path, "-m", "outplace", "run", "--fix", "wrong.py")
    assert repairing.returncode == 0
    assert (tmp_path / "wrong.py").read_text() != wrong
    ours, theirs = (
        [float(number) for number in result(tmp_path, program).split()[1:]] for program in ("wrong.py", "right.py")
    )
    assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-6)


def result(folder: Path, program: str) -> str:
    done = forks.python(folder, program)
    return next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))


SAVED_ACTIONS = """
import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
opt = torch.optim.SGD(policy.parameters(), lr=0.1)
states = torch.randn(6, 3)


def learn(saved, returns):
    opt.zero_grad()
    for (score, value), given in zip(saved, returns):
        loss = (given - value.item()) * score + (value - given).square()
        loss.backward()
        opt.step()


for _ in range(2):
    saved = [tuple(policy(state).tanh()) for state in states]
    learn(saved, torch.arange(6.0))
found = [p.detach().flatten().tolist() for p in policy.parameters()]
"""


def test_graphs_that_a_loop_is_given_are_all_of_the_weights_before_it() -> None:
    done, known = repaired(SAVED_ACTIONS), dict[str, Any]()
    assert not done.left
    assert "        loss.backward()\n    opt.step()\n" in done.text
    by_hand = SAVED_ACTIONS.replace("    for (score", "    total = 0.0\n    for (score")
    by_hand = by_hand.replace(
        "        loss.backward()\n        opt", "        total += loss\n    total.backward()\n    opt"
    )
    expected = dict[str, Any]()
    exec(done.text, known)
    exec(by_hand, expected)
    assert [pytest.approx(values, rel=1e-5) for values in expected["found"]] == known["found"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # each item may be a step of its own
        ("        loss.backward", "        opt.zero_grad()\n        loss.backward"),
        ("    opt.zero_grad()\n", ""),
        ("(value - given).square()", "policy(states).sum() * value"),  # with the weights of the last step
        ("        loss.backward", "        scheduler.step()\n        loss.backward"),
    ],
)
def test_not_if_each_item_may_be_a_step(old: str, new: str) -> None:
    source = SAVED_ACTIONS.replace(old, new)
    source = source.replace("states =", "scheduler = torch.optim.lr_scheduler.StepLR(opt, 1)\nstates =")
    assert old in SAVED_ACTIONS
    assert repaired(source).text == source
