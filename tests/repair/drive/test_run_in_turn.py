"""Trainings in turn, repaired from a run: what the runs have shown, and what is left to a person."""

from __future__ import annotations

from pathlib import Path

import forks

PROGRAMS = Path(__file__).parents[2] / "cases" / "programs"


def run(folder: Path, name: str) -> tuple[int, str, str]:
    """The exit code of `outplace run --fix`, what it says, and the program it leaves."""
    program = folder / name
    program.write_text((PROGRAMS / name).read_text())
    done = forks.python(folder, "-m", "outplace", "run", "--fix", name)
    return done.returncode, " ".join(done.stderr.split()), program.read_text()


def test_fakes_that_methods_read_are_detached_and_every_step_stays_what_it_was(tmp_path):
    name = "cyclegan_methods_fake_attached.py"
    code, said, text = run(tmp_path, name)
    original = (PROGRAMS / name).read_text()
    assert text == original.replace("self.b, self.fake_b)", "self.b, self.fake_b.detach())").replace(
        "self.a, self.fake_a)", "self.a, self.fake_a.detach())"
    )
    assert code == 0
    # 2 rounds of 3 backwards and 2 steps
    assert "loss: unchanged, in 6 backwards" in said
    assert "each step uses those of the original program with copies of its saved tensors, in 4 steps" in said


def test_data_of_a_rollout_is_for_a_person_to_cut_off(tmp_path):
    name = "ppo_rollout_values_attached.py"
    code, said, text = run(tmp_path, name)
    assert text == (PROGRAMS / name).read_text()
    assert code == 1
    assert "the step in line 37 of one iteration comes before the backward in line 36 of the next" in said
    assert "`old`, `values`, `advantages`; choose: detach" in said


TRUNK = """import copy

import torch
from torch import nn

torch.manual_seed(0)
trunk = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh())
actor, critic = nn.Linear(5, 2), nn.Linear(5, 1)
critic_opt = torch.optim.SGD([*trunk.parameters(), *critic.parameters()], lr=0.1)
actor_opt = torch.optim.SGD([*trunk.parameters(), *actor.parameters()], lr=0.1)
x = torch.randn(4, 3)
for _ in range(2):
    features = trunk(x)
    critic_loss = critic(features).pow(2).mean()
    actor_loss = actor(features).exp().mean()
    critic_opt.zero_grad()
    critic_loss.backward({retain})
    critic_opt.step()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
weight = [p for net in (trunk, actor, critic) for p in net.parameters()]
print(*(round(number.sum().item(), 5) for number in [*weight, actor_loss]))
"""


def test_losses_of_one_forward_that_train_the_same_weights_keep_their_values_and_gradients(tmp_path):
    (tmp_path / "turns.py").write_text(TRUNK.format(retain="retain_graph=True"))
    taken = """    for new, old in zip([*trunk.parameters(), *actor.parameters()], before.parameters()):
        new.grad = old.grad
    actor_opt.step()
"""
    copies = TRUNK.format(retain="").replace("actor(features)", "before(x)").replace("    actor_opt.step()\n", taken)
    copies = copies.replace("    features =", "    before = copy.deepcopy(nn.Sequential(trunk, actor))\n    features =")
    (tmp_path / "copies.py").write_text(copies)  # each loss has weights of its own, so no order matters
    known = []
    for how in (["copies.py"], ["-m", "outplace", "run", "--fix", "turns.py"]):
        known.append(forks.python(tmp_path, *how))
    assert known[0].stdout == known[1].stdout != ""
    assert "loss: unchanged, in 4 backwards" in known[1].stderr


SHARP = """import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(6, 3), torch.randn(6, 1)


def climb(size):
    moves = []
    with torch.no_grad():
        for p in model.parameters():
            moves.append(p.grad * size)
            p.add_(moves[-1])
            p.grad = None
    return moves


for _ in range(2):
    out = model(x)
    loss = (out - y).pow(2).mean()
    loss.backward(retain_graph=True)
    moves = climb(0.05)
    {again}(out - y).pow(2).mean().backward()
    with torch.no_grad():
        for p, move in zip(model.parameters(), moves):
            p.sub_(move)
    opt.step()
    opt.zero_grad()
print(*(round(p.sum().item(), 5) for p in model.parameters()), round(loss.item(), 5))
"""


def test_a_loss_after_an_update_by_gradients_is_for_the_new_weights(tmp_path):
    (tmp_path / "sharp.py").write_text(SHARP.format(again=""))
    (tmp_path / "meant.py").write_text(SHARP.format(again="out = model(x)\n    "))
    known = []
    for how in (["meant.py"], ["-m", "outplace", "run", "--fix", "sharp.py"]):
        known.append(forks.python(tmp_path, *how))
    assert known[0].stdout == known[1].stdout != ""
    assert (tmp_path / "sharp.py").read_text() == (tmp_path / "meant.py").read_text()
