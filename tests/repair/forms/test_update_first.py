"""An update that needs weights of before another one's step goes first, where neither takes other gradients then: the
repaired program is compared with the same training done by hand, without torch."""

from __future__ import annotations

import math

import pytest
from test_in_turn import DATA, HEAD, f, program
from test_numbers import after, close, stepped

import forks
from conftest import repaired

NETS = """actor, critic = Scalar(0.6), Scalar(0.9)
actor_opt = torch.optim.SGD(actor.parameters(), lr=0.1)
critic_opt = torch.optim.SGD(critic.parameters(), lr=0.1)
"""
END = "a, c = actor.w.item(), critic.w.item()\n"
CLIMBED = """
value = critic(actor(z))
target = 0.5 * value + x

# the critic learns the target
critic_loss = (critic(x) - target.detach()).pow(2).sum()
critic_opt.zero_grad()
critic_loss.backward()
critic_opt.step()

# the actor climbs it
actor_loss = -target.sum()
actor_opt.zero_grad()
actor_loss.backward()
actor_opt.step()
"""
FIRST = """    target = 0.5 * value + x

    # the actor climbs it
    actor_loss = -target.sum()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()

    # the critic learns the target
    critic_loss = (critic(x) - target.detach()).pow(2).sum()
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()
a, c = """


def climbed() -> list[float]:
    """Both losses with the weights of before both steps."""
    a, c = 0.6, 0.9
    for z, real in DATA:
        target = 0.5 * f(c, f(a, z)) + real
        (new,) = stepped(lambda a, c=c, z=z, real=real: -(0.5 * f(c, f(a, z)) + real), a)
        (c,) = stepped(lambda c, target=target, real=real: (f(c, real) - target) ** 2, c)
        a = new
    return [a, c]


def text_of(body: str, nets: str = NETS) -> str:
    return program(body, nets, END)


def test_the_later_update_goes_first_with_its_comment():
    done = repaired(text_of(CLIMBED))
    assert FIRST in done.text
    assert not done.left
    assert after(done.text, "a", "c") == close(climbed())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("value = critic(actor(z))", "action = actor(z)\nvalue = critic(action)"),
        ("value = critic(actor(z))\ntarget = 0.5 * value + x", "target = torch.stack([0.5 * critic(actor(z)) + x])[0]"),
        ("critic_opt.zero_grad()", "critic.zero_grad()"),
        # gradients that are cleared before anything else
        ("value = critic(", "critic_opt.zero_grad()\nvalue = critic("),
        ("critic_opt.step()\n", "critic_opt.step()\nprint(critic_loss.item())\n"),
        ("actor_opt.step()\n", "nn.utils.clip_grad_norm_(actor.parameters(), 1e9)\nactor_opt.step()\nprint(target)\n"),
        ("\n# the actor climbs it\n", ""),
        ("actor_loss = -target.sum()", "actor_loss = -target.sum() - critic_loss.detach()"),
        ("actor_loss = -target.sum()\n", "actor_loss = -target.sum()\n\n"),
    ],
)
def test_however_it_is_written(old, new):
    assert old in CLIMBED
    done = repaired(text_of(CLIMBED.replace(old, new)))
    assert not done.left
    assert done.text.index("actor_opt.step()") < done.text.index("critic_opt.step()")
    assert after(done.text, "a", "c") == close(climbed())


TOP = CLIMBED.replace("critic_opt.zero_grad()\n", "").replace("actor_opt.zero_grad()\n", "")


@pytest.mark.parametrize("order", ["critic_opt, actor_opt", "actor_opt, critic_opt"])
def test_gradients_that_are_cleared_at_the_top_are_cleared_between(order):
    body = "".join(f"{one}.zero_grad()\n" for one in order.split(", ")) + TOP
    done = repaired(text_of(body))
    assert "    actor_opt.step()\n\n    critic_opt.zero_grad()\n" in done.text
    assert done.text.count("zero_grad") == 2
    assert after(done.text, "a", "c") == close(climbed())


METHOD = f"""{HEAD}class Agent:
    def __init__(self):
        self.actor, self.critic = Scalar(0.6), Scalar(0.9)
        self.actor_opt = torch.optim.SGD(self.actor.parameters(), lr=0.1)
        self.critic_opt = torch.optim.SGD(self.critic.parameters(), lr=0.1)

    def update(self, z, x):
        target = 0.5 * self.critic(self.actor(z)) + x
        critic_loss = (self.critic(x) - target.detach()).pow(2).sum()
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()
        actor_loss = -target.sum()
        self.actor_opt.zero_grad()
        actor_loss.backward()
        self.actor_opt.step()
        return critic_loss.item()


agent = Agent()
for z, real in {DATA}:
    agent.update(torch.tensor([[z]]), torch.tensor([[real]]))
a, c = agent.actor.w.item(), agent.critic.w.item()
"""


def test_in_a_method():
    done = repaired(METHOD)
    assert done.text.index("self.actor_opt.step()") < done.text.index("self.critic_opt.step()")
    assert after(done.text, "a", "c") == close(climbed())


def test_what_a_method_is_given_may_train_the_actor():
    text = METHOD.replace("torch.tensor([[real]]))", "agent.actor(torch.tensor([[real]])))")
    assert repaired(text).text == text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # the earlier loss trains the actor, too, or goes through what the later one goes through
        ("(critic(x) - target.detach())", "(critic(actor(x)) - target.detach())"),
        ("target.detach()", "target"),
        # networks are run in the later update: with the new weights, as it stands
        ("actor_loss = -target.sum()", "actor_loss = -target.sum() - critic(x).sum()"),
        # backward through the loss of before
        ("actor_loss = -target.sum()", "actor_loss = -target.sum() - critic_loss"),
        # who knows what these do?
        ("actor_opt.step()\n", "watch(actor)\nactor_opt.step()\n"),
        ("critic_opt.step()\n", "critic_opt.step()\nwatch(critic)\n"),
        ("critic_opt.step()\n", "critic.w.grad.mul_(0.5)\ncritic_opt.step()\n"),
        ("critic_loss.backward()\n", "critic_loss.backward(retain_graph=True)\n"),
        # gradients that are never cleared, or clipped together
        ("critic_opt.zero_grad()\n", ""),
        (
            "actor_opt.step()\n",
            "nn.utils.clip_grad_norm_([*actor.parameters(), *critic.parameters()], 1)\nactor_opt.step()\n",
        ),
        ("actor_opt.zero_grad()\n", "actor_opt.zero_grad()\nif x.sum() > 9:\n    break\n"),
    ],
)
def test_left_where_a_step_might_take_something_else(old, new):
    assert old in CLIMBED
    text = text_of(CLIMBED.replace(old, new), "def watch(network):\n    print(network)\n\n\n" + NETS)
    assert repaired(text).text == text


def test_left_where_gradients_are_looked_at_while_it_trains():
    text = text_of(CLIMBED + "print(critic.w.grad)\n")
    assert repaired(text).text == text
    done = repaired(text_of(CLIMBED) + "print(critic.w.grad)\n")  # a report at the end
    assert FIRST in done.text


def test_two_optimizers_of_one_network():
    nets = NETS.replace("(actor.parameters()", "([*actor.parameters(), *critic.parameters()]")
    assert repaired(text_of(CLIMBED, nets)).text == text_of(CLIMBED, nets)


GAN = """
fake = G(z)
loss_d = D(fake.detach()).sum() - D(x).sum()
loss_g = -D(fake).sum()
opt_d.zero_grad()
loss_d.backward()
opt_d.step()
opt_g.zero_grad()
loss_g.backward()
opt_g.step()
"""


def test_a_generator_sees_the_discriminator_that_has_just_learnt():
    done = repaired(program(GAN))
    assert "    opt_d.step()\n    loss_g = -D(fake).sum()\n" in done.text


RUN = """import torch
from torch import nn

torch.manual_seed(0)
actor, critic = nn.Linear(3, 3), nn.Linear(3, 1)
actor_opt = torch.optim.Adam(actor.parameters(), lr=0.1)
critic_opt = torch.optim.Adam(critic.parameters(), lr=0.1)


def returns(rewards, values):
    return [r + 0.9 * v for r, v in zip(rewards, values)]


def learn(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for _ in range(3):
    states = [actor(torch.randn(4, 3)) + 0.1 * torch.randn(4, 3) for _ in range(2)]
    rewards = [state.mean() for state in states]
    targets = returns(rewards, [critic(state) for state in states])
    critic_loss = sum((critic(s.detach()) - t.detach()).pow(2).mean() for s, t in zip(states, targets))
    {critic}
    actor_loss = -sum(target.mean() for target in targets)
    {actor}
print("RESULT", *(round(p.sum().item(), 5) for net in (actor, critic) for p in net.parameters()))
"""
CRITIC, ACTOR = (
    f"{one}_opt.zero_grad()\n    {one}_loss.backward()\n    {one}_opt.step()" for one in ("critic", "actor")
)


@pytest.mark.parametrize(
    ("critic", "actor"), [(CRITIC, ACTOR), ("learn(critic_opt, critic_loss)", "learn(actor_opt, actor_loss)")]
)
def test_a_run_shows_that_each_step_takes_what_it_took(tmp_path, critic, actor):
    wrong = RUN.format(critic=critic, actor=actor)
    loss = "    actor_loss = -sum(target.mean() for target in targets)\n"
    right = wrong.replace(loss, "").replace(f"    {actor}\n", "")
    right = right.replace("    critic_loss =", f"{loss}    {actor}\n    critic_loss =")
    known = []
    for name, text in (("right", right), ("wrong", wrong)):
        (tmp_path / f"{name}.py").write_text(text)
        how = ["-m", "outplace", "run", "--fix"] if name == "wrong" else []
        known.append(forks.python(tmp_path, *how, f"{name}.py"))
    assert known[0].stdout == known[1].stdout != ""
    assert "each step uses those of the original program" in " ".join(known[1].stderr.split())
    assert math.isfinite(float(known[0].stdout.split()[1]))


HANDED_IN = """
def losses(z, x):
    fake = G(z)
    return (fake - x).pow(2).sum() - 0.5 * D(fake).sum(), D(x).pow(2).sum() - D(fake.detach()).sum()


def update(loss_g, loss_d):
    loss_d.backward(inputs=list(D.parameters()))
    opt_d.step()
    if loss_g is not None:
        loss_g.backward(inputs=list(G.parameters()))
        opt_g.step()


"""
IN_TWO_ARMS = HANDED_IN.replace("    loss_d.backward", "    if loss_d is not None:\n        loss_d.backward").replace(
    "    opt_d.step()\n    if", "        opt_d.step()\n    if"
)
COMPUTED = HANDED_IN.replace(
    "def update(loss_g, loss_d):\n", "def update(loss_g, loss_d):\n    loss_g = loss_g * 1.0\n"
)
"""The loss could be computed after the step. But each backward names its inputs: they are parts of one gradient."""
BOTH = "opt_g.zero_grad()\nopt_d.zero_grad()\nlosses_of_both = losses(z, x)\nupdate(*losses_of_both)\n"
TWO = NETS.replace("actor", "G").replace("critic", "D").replace("G_opt", "opt_g").replace("D_opt", "opt_d")


def handed_in(functions: str) -> str:
    return program(BOTH, TWO + functions, "g, d = G.w.item(), D.w.item()\n")


@pytest.mark.parametrize("functions", [HANDED_IN, IN_TWO_ARMS, COMPUTED])
@pytest.mark.parametrize("name", ["update", "step"])  # also that of the optimizers' method
def test_losses_that_a_caller_hands_in_keep_their_values(functions, name):
    done = repaired(handed_in(functions).replace("update(", f"{name}("))
    assert not done.left
    g, d = 0.6, 0.9
    for z, real in DATA:
        (new,) = stepped(lambda g, z=z, real=real, d=d: (f(g, z) - real) ** 2 - 0.5 * f(d, f(g, z)), g)
        (d,) = stepped(lambda d, z=z, real=real, g=g: f(d, real) ** 2 - f(d, f(g, z)), d)
        g = new
    assert after(done.text, "g", "d") == close([g, d])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # the generator would step with gradients of both
        ("loss_d.backward(inputs=list(D.parameters()))", "(loss_d + loss_g).backward()"),
        # the discriminator would step with gradients of both
        ("loss_g.backward(inputs=list(G.parameters()))", "loss_g.backward()"),
    ],
)
def test_not_if_the_losses_can_be_meant_otherwise(old, new):
    source = handed_in(IN_TWO_ARMS).replace(old, new)
    assert old in handed_in(IN_TWO_ARMS)
    assert repaired(source).text == source
