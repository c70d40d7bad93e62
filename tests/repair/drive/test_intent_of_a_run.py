"""`run --fix --intent`: the author says which weights a loss is meant to use."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import forks

TRAINING = """import torch
from torch import nn

torch.manual_seed(0)
G, D = nn.Linear(2, 2), nn.Linear(2, 1)
opt_g = torch.optim.SGD(G.parameters(), lr=0.1)
opt_d = torch.optim.SGD(D.parameters(), lr=0.1)
for _ in range(3):
    real, noise = torch.randn(16, 2), torch.randn(16, 2)
    fake = G(noise).tanh()
    loss_d = D(fake.detach()).square().mean() - D(real).mean()
    loss_g = -D(fake).tanh().mean()
{shown}    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
print("WEIGHTS", *(round(p.sum().item(), 5) for p in [*G.parameters(), *D.parameters()]))
"""
SHOWN = "    print(loss_g.item())\n"
CHOICE = "The source does not show which order was meant. For the other: --intent "


def by_hand(new_weights: bool) -> str:
    """The same training with gradients of functions, and updates without an optimizer."""
    torch.manual_seed(0)
    G, D = nn.Linear(2, 2), nn.Linear(2, 1)
    of_g, of_d = list(G.parameters()), list(D.parameters())
    for _ in range(3):
        real, noise = torch.randn(16, 2), torch.randn(16, 2)

        def losses(real=real, noise=noise):
            fake = G(noise).tanh()
            return D(fake.detach()).square().mean() - D(real).mean(), -D(fake).tanh().mean()

        gradients_d = torch.autograd.grad(losses()[0], of_d)
        gradients_g = torch.autograd.grad(losses()[1], of_g)
        update(of_d, gradients_d)
        update(of_g, torch.autograd.grad(losses()[1], of_g) if new_weights else gradients_g)
    return "WEIGHTS " + " ".join(str(round(p.sum().item(), 5)) for p in [*of_g, *of_d])


@torch.no_grad()
def update(weights, gradients):
    for weight, gradient in zip(weights, gradients, strict=True):
        weight -= 0.1 * gradient


@pytest.fixture
def repaired(tmp_path) -> Callable[..., tuple[str, str]]:
    def repair(program: str, *options: str) -> tuple[str, str]:
        (tmp_path / "train.py").write_text(program)
        done = forks.python(tmp_path, "-m", "outplace", "run", "--fix", *options, "train.py")
        return done.stdout.splitlines()[-1] if done.returncode == 0 else "failed", done.stderr

    return repair


@pytest.mark.parametrize(
    "intent, shown, new_weights, other",
    [
        ("", "", True, "old-weights"),
        ("old-weights", "", False, ""),
        ("new-weights", "", True, ""),
        ("", SHOWN, False, ""),
        ("new-weights", SHOWN, True, ""),
    ],
)
def test_the_training_is_what_the_author_has_said(intent, shown, new_weights, other, repaired):
    options = ("--intent", intent) if intent else ()
    printed, messages = repaired(TRAINING.format(shown=shown), *options)
    assert printed == by_hand(new_weights)
    assert CHOICE + other in messages if other else CHOICE not in messages


def test_a_bug_with_one_meaning_is_repaired_whatever_is_said(repaired):
    lines = "w = torch.ones(2, requires_grad=True)\ny = w.exp()\ny += 1\ny.sum().backward()\nprint(w.grad[0])\n"
    for intent in ("old-weights", "new-weights"):
        printed, messages = repaired("import torch\n" + lines, "--intent", intent)
        assert printed == "tensor(2.7183)"
        assert CHOICE not in messages


UPDATE = "    opt_g.zero_grad()\n    loss_g.backward()\n    opt_g.step()\n"
FUNCTION = "def update(loss):\n    opt_g.zero_grad()\n    loss.backward()\n    opt_g.step()\n\n\nfor _ in"
HANDED_IN = TRAINING.replace(UPDATE, "    update(loss_g)\n").replace("for _ in", FUNCTION).format(shown="")


@pytest.mark.parametrize("intent, new_weights", [("old-weights", False), ("new-weights", True)])
def test_a_backward_in_another_function(intent, new_weights, repaired):
    assert repaired(HANDED_IN, "--intent", intent)[0] == by_hand(new_weights)


ESTIMATED = """import torch
from torch import nn
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    def forward(self, x):
        return self.net(x).squeeze(-1)
class Learner:
    def __init__(self):
        self.actor, self.critic = Net(), Net()
        self.opt = torch.optim.SGD([*self.actor.parameters(), *self.critic.parameters()], lr=0.1)
    def estimate(self, x, rewards):
        values = self.critic(torch.cat([x, x[:1]]))
        return rewards + 0.9 * values[1:], rewards + 0.9 * values[1:] - values[:-1]
    def update(self, x, rewards):
        returns, gain = self.estimate(x, rewards)
        for _ in range(3):
            loss = ({value} - returns).square().mean() - (self.actor(x) * gain).mean()
            self.opt.zero_grad()
            loss.backward(retain_graph=True)
            self.opt.step()
        return loss.item()
print("RESULT", Learner().update(torch.randn(5, 3), torch.randn(5)))
"""


@pytest.mark.parametrize(
    ("value", "detached"),
    [
        ("self.critic(x)", True),  # the rounds fit the critic to what it has said before
        ("self.actor(x)", False),  # the critic is trained through these values only
    ],
)
def test_targets_that_a_function_computes_before_the_rounds(value, detached, repaired, tmp_path):
    program = ESTIMATED.format(value=value)
    computed, loop = "        returns, gain = self.estimate(x, rewards)\n", "        for _ in range(3):\n"
    result, said = repaired(program)
    cuts = "        returns = returns.detach()\n        gain = gain.detach()\n"
    meant = program.replace(loop, f"{cuts if detached else ''}{loop}{'' if detached else '    ' + computed}")
    (tmp_path / "meant.py").write_text(meant)
    assert result == forks.python(tmp_path, "meant.py").stdout.strip(), said
