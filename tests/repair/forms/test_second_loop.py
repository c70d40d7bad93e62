"""Steps of different optimizers, one for each iteration of a loop: they go into a second loop."""

from __future__ import annotations

import pytest

import forks
from conftest import repaired

PROGRAM = """
import torch
from torch import nn

torch.manual_seed(0)
nets = {{"coder": nn.Linear(3, 2), "judge": nn.Linear(2, 1)}}
opts = {{name: torch.optim.SGD(net.parameters(), lr=0.1) for name, net in nets.items()}}


def losses(x):
    seen = nets["judge"](nets["coder"](x).tanh()).tanh()
    return {{"judge": seen.square().mean(), "coder": (1 - seen).square().mean()}}


for _ in range(3):
    found = losses(torch.randn(5, 3))
{body}
print(*(round(w.detach().sum().item(), 5) for net in nets.values() for w in net.parameters()))
"""
BODY = """    for name, loss in found.items():
        # each of them trains its own network
        {opt}.zero_grad()
        loss.backward(retain_graph=True{inputs})
        {opt}.step()
"""
OWN = ", inputs=list(nets[name].parameters())"
BY_HAND = """    with torch.no_grad():
        ahead = [
            (w, torch.autograd.grad(loss, w, retain_graph=True)[0])
            for name, loss in found.items() for w in nets[name].parameters()
        ]
        for w, slope in ahead:
            w -= 0.1 * slope
"""


def printed(folder, text: str) -> str:
    (folder / "train.py").write_text(text)
    done = forks.python(folder, "train.py")
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_two(body: str, *again: str) -> str:
    """The steps, with the lines that they need, in a loop of their own."""
    lines = body.splitlines()
    step = next(line for line in lines if line.endswith("step()"))
    return "\n".join([*(line for line in lines if line != step), lines[0], *again, step, ""])


@pytest.mark.parametrize("unsafe", [False, True])
def test_each_steps_after_all_backwards(unsafe, tmp_path):
    body = BODY.format(opt="opts[name]", inputs=OWN)
    text = repaired(PROGRAM.format(body=body), unsafe=unsafe).text
    assert text == PROGRAM.format(body=in_two(body))
    assert printed(tmp_path, text) == printed(tmp_path, PROGRAM.format(body=BY_HAND))


def test_with_names_of_the_iteration_and_clipping(tmp_path):
    chosen = "        opt = opts[name]"
    body = BODY.format(opt="opt", inputs=OWN).replace("        # each of them trains its own network", chosen)
    body = body.replace(
        "        opt.step()", "        nn.utils.clip_grad_norm_(nets[name].parameters(), 9.0)\n        opt.step()"
    )
    text = repaired(PROGRAM.format(body=body)).text
    head, clip, step = body.splitlines()[0], *body.splitlines()[-2:]
    kept = [line for line in body.splitlines() if line not in (clip, step)]
    assert text == PROGRAM.format(body="\n".join([*kept, head, chosen, clip, step, ""]))
    assert printed(tmp_path, text) == printed(tmp_path, PROGRAM.format(body=BY_HAND))


def test_a_run_proves_it_for_items_that_only_it_knows(tmp_path):
    body = BODY.format(opt="opt", inputs=OWN)
    body = body.replace(
        "for name, loss in found.items()", "for (name, loss), opt in zip(found.items(), reversed(opts.values()))"
    )
    (tmp_path / "train.py").write_text(PROGRAM.format(body=body))
    done = forks.python(tmp_path, "-m", "outplace", "run", "--fix", "train.py")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "train.py").read_text() == PROGRAM.format(body=in_two(body))
    assert done.stdout.splitlines()[-1] == printed(tmp_path, PROGRAM.format(body=BY_HAND)).strip()


@pytest.mark.parametrize(
    "change",
    [
        (OWN, ""),  # the second backward adds to the gradients of the first network
        ("        {opt}.zero_grad()\n", "        for one in opts.values():\n            one.zero_grad()\n"),
        ("{opt}.step()\n", "{opt}.step()\n        if loss.item() > 9:\n            break\n"),
    ],
)
def test_not_if_a_step_would_use_another_gradient(change):
    source = PROGRAM.format(body=BODY.replace(*change).format(opt="opts[name]", inputs=OWN if change[0] != OWN else ""))
    assert repaired(source).text == source
