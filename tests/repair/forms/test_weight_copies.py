"""Weights that are written by hand between a forward and its backward: the forward computes with copies of them."""

from __future__ import annotations

import textwrap

import pytest
from test_in_turn import DATA, HEAD, LOOP, NETS, f
from test_numbers import after, close, stepped

import forks
from conftest import repaired

COPIES = "torch.func.functional_call({0}, {{name: weight.clone() for name, weight in {0}.named_parameters()}}, ({1},))"


def program(body: str, head: str = NETS) -> str:
    return HEAD + head + LOOP + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\ng = G.w.item()\n"


MOVED = """
def move(net, by):
    with torch.no_grad():
        for w in net.parameters():
            w.add_(by)


"""
ATTACKED = """
plain = G(x).sum()
move(G, 0.3)
moved = G(x).sum()
move(G, -0.3)
opt_g.zero_grad()
(plain - 2 * moved).backward()
opt_g.step()
"""


def test_two_losses_of_two_weights():
    """Neither a backward nor a write can move: each loss needs other weights."""
    text = repaired(program(ATTACKED, NETS + MOVED)).text
    assert text == program(ATTACKED.replace("G(x)", COPIES.format("G", "x")), NETS + MOVED)
    g = 0.6
    for _, x in DATA:
        (g,) = stepped(lambda w, x=x: f(w, x) - 2 * f(w + 0.3, x), g)
    assert after(text, "g") == close([g])


@pytest.mark.parametrize(
    ("call", "copied"),
    [
        ("G(x=x)", "torch.func.functional_call(G, {C}, (), {'x': x})"),
        ("G(x, )", "torch.func.functional_call(G, {C}, (x,))"),
        ("G(*[x])", "torch.func.functional_call(G, {C}, (*[x],))"),
        ("G(abs(D(x)))", "torch.func.functional_call(G, {C}, (abs("),
    ],
)
def test_arguments(call, copied):
    text = repaired(program(ATTACKED.replace("G(x)", call), NETS + MOVED)).text
    copies = "{name: weight.clone() for name, weight in G.named_parameters()}"
    assert text.count(copied.replace("{C}", copies)) == 2
    g, d = 0.6, 0.9
    for _, x in DATA:
        given = abs(f(d, x)) if "D" in call else x
        (g,) = stepped(lambda w, x=given: f(w, x) - 2 * f(w + 0.3, x), g)
    assert after(text, "g") == close([g])


LEGAL = """
plain = G(x).sum()
opt_g.zero_grad()
plain.backward()
move(G, 0.3)
with torch.no_grad():
    moved = G(x).sum()
move(G, -0.3)
opt_g.step()
"""


def test_a_right_program_is_left():
    assert repaired(program(LEGAL, NETS + MOVED)).text == program(LEGAL, NETS + MOVED)


def test_a_step_by_hand_is_no_other_weight():
    """It is a training step in the wrong order."""
    source = program("""
        first = G(x).sum()
        later = G(x).square().sum()
        (slope,) = torch.autograd.grad(first, [G.w])
        with torch.no_grad():
            G.w -= 0.1 * slope
        later.backward()
    """)
    assert "functional_call" not in repaired(source, unsafe=True).text


TEACHER = """
import copy
import torch
from torch import nn

torch.manual_seed(0)


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.student = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        self.teacher = copy.deepcopy(self.student)

    def forward(self, x, y):
        seen = self.student(x)
        with torch.no_grad():
            for mine, its in zip(self.student.parameters(), self.teacher.parameters()):
                its.mul_(0.9).add_(mine, alpha=0.1)
        return (seen - {teacher}).square().mean()


pair = Pair()
opt = torch.optim.SGD(pair.{trained}.parameters(), lr=0.1)
for _ in range(3):
    x, y = torch.randn(5, 3), torch.randn(5, 3)
    loss = pair(x, y) + pair(y, x)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(round(loss.item(), 5))
print(*(round(w.detach().sum().item(), 5) for w in pair.parameters()))
"""


def test_a_teacher_that_nobody_trains_is_detached(tmp_path):
    (tmp_path / "train.py").write_text(TEACHER.format(teacher="self.teacher(y)", trained="student"))
    done = forks.python(tmp_path, "-m", "outplace", "run", "--fix", "train.py")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "train.py").read_text() == TEACHER.format(teacher="self.teacher(y).detach()", trained="student")
    by_hand = TEACHER.format(teacher="[self.teacher(y).data for _ in [torch.no_grad()]][0]", trained="student")
    (tmp_path / "other.py").write_text(by_hand)
    assert done.stdout.splitlines()[-4:] == forks.python(tmp_path, "other.py").stdout.splitlines()


def test_a_teacher_that_is_trained_keeps_its_gradient(tmp_path):
    """An optimizer steps it, too: then its weights of the forward are copied."""
    (tmp_path / "train.py").write_text(TEACHER.format(teacher="self.teacher(y)", trained="teacher"))
    done = forks.python(tmp_path, "-m", "outplace", "run", "--fix", "train.py")
    assert done.returncode == 0, done.stderr
    copied = COPIES.format("self.teacher", "y")
    assert (tmp_path / "train.py").read_text() == TEACHER.format(teacher=copied, trained="teacher")


SHARED = """
import torch
from torch import nn

torch.manual_seed(0)
{nets}
{opts}
for _ in range(3):
    x, a, b = torch.randn(6, 3), torch.rand(6, 1), torch.rand(6, 1)
{body}
print(*(round(w.detach().sum().item(), 5) for net in (trunk, one, two) for w in net.parameters()))
"""
NETWORKS = "trunk, one, two = nn.Linear(3, 4), nn.Linear(4, 1), nn.Linear(4, 1)"
OPTIMIZERS = "opts = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (trunk, one, two)]"
SUMMED = """    for opt in opts:
        opt.zero_grad()
    h = torch.tanh(trunk(x))
    p = one(h).sigmoid()
    both = p * two(h).sigmoid()
    loss = (p - a).square().mean()
    loss.backward(retain_graph=True)
{early}    joint = (both - b).square().mean()
    joint.backward()
{late}    opts[2].step()
    opts[0].step()
"""
STEP = "    opts[1].step()\n"


def of_towers(**parts: str) -> str:
    return SHARED.format(nets=NETWORKS, opts=OPTIMIZERS, body=SUMMED.format(**parts))


@pytest.mark.parametrize("command", [("fix",), ("run", "--fix")])
def test_a_step_waits_for_a_loss_that_adds_to_the_same_gradients(command, tmp_path):
    """The trunk adds up both losses, also beside the first tower. So this tower takes the sum, too."""
    (tmp_path / "train.py").write_text(of_towers(early=STEP, late=""))
    done = forks.python(tmp_path, "-m", "outplace", *command, "train.py")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "train.py").read_text() == of_towers(early="", late=STEP)


@pytest.mark.parametrize(
    "change",
    [
        ("    joint =", "    opts[0].zero_grad()\n    joint ="),  # cleared in between
        ("* two(h)", "* two(h.detach())"),  # the trunk gets the second loss through the first tower alone
    ],
)
def test_but_not_for_another_loss(change, tmp_path):
    source = of_towers(early=STEP, late="").replace(*change)
    (tmp_path / "train.py").write_text(source)
    forks.python(tmp_path, "-m", "outplace", "run", "--fix", "train.py")
    text = (tmp_path / "train.py").read_text()
    assert text.index("joint.backward") > text.index("opts[1].step")


def test_the_source_alone_shows_it_only_if_all_is_cleared_first():
    source = of_towers(early=STEP, late="").replace(
        "for opt in opts:\n        opt", "for opt in opts[:2]:\n        opt"
    )
    assert repaired(source).text == source


def test_a_loss_that_was_shown_keeps_its_value_where_the_optimizers_share_weights(tmp_path):
    source = """
import torch
from torch import nn

torch.manual_seed(0)
body, actor, critic = nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(4, 1)
opt_a = torch.optim.SGD([*body.parameters(), *actor.parameters()], lr=0.1)
opt_c = torch.optim.SGD([*body.parameters(), *critic.parameters()], lr=0.1)
for _ in range(3):
    x, goal = torch.randn(6, 3), torch.randn(6, 1)
    wrong = (critic(body(x).tanh()) - goal).square().mean()
    gain = actor(body(x).tanh()).softmax(1)[:, 0].mean()
    print(round(wrong.item(), 5), round(gain.item(), 5))
    opt_c.zero_grad()
    wrong.backward()
    opt_c.step()
    opt_a.zero_grad()
    gain.backward()
    opt_a.step()
print(*(round(w.detach().sum().item(), 5) for net in (body, actor, critic) for w in net.parameters()))
"""
    (tmp_path / "train.py").write_text(source)
    done = forks.python(tmp_path, "-m", "outplace", "run", "--fix", "train.py")
    assert done.returncode == 0, done.stderr
    head, body = source.split("    opt_c.zero_grad()")
    _, end = body.split("    opt_a.step()\n")
    update = """    with torch.no_grad():
        for net, loss in ((critic, wrong), (actor, gain)):
            weights = [*body.parameters(), *net.parameters()]
            for w, slope in zip(weights, gradients[loss]):
                w -= 0.1 * slope
"""
    ahead = """    gradients = {
        loss: torch.autograd.grad(loss, [*body.parameters(), *net.parameters()])
        for net, loss in ((critic, wrong), (actor, gain))
    }
"""
    (tmp_path / "by_hand.py").write_text(head + ahead + update + end)
    assert done.stdout.splitlines()[-4:] == forks.python(tmp_path, "by_hand.py").stdout.splitlines()


FAST = """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
start = [p.detach().clone() for p in net.parameters()]
total = 0.0
for _ in range(2):
    inner = net(torch.randn(5, 2)).square().mean()
    slopes = torch.autograd.grad(inner, list(net.parameters()), create_graph=True)
    with torch.no_grad():
        for p, slope in zip(net.parameters(), slopes):
            p -= 0.1 * slope
    total = total + net(torch.randn(5, 2)).square().mean()
    with torch.no_grad():
        for p, first in zip(net.parameters(), start):
            p.copy_(first)
opt.zero_grad()
total.backward()
opt.step()
"""


@pytest.mark.parametrize("command", [("fix",), ("run", "--fix")])
@pytest.mark.parametrize("graph", [", create_graph=True", ""])
def test_weights_that_follow_a_gradient_and_go_back_are_for_a_person(command, graph, tmp_path):
    """The gradient may be meant to go through the inner update: copies would give another one."""
    source = FAST.replace(", create_graph=True", graph)
    (tmp_path / "train.py").write_text(source)
    forks.python(tmp_path, "-m", "outplace", *command, "train.py")
    assert (tmp_path / "train.py").read_text() == source


NORMED = """
import torch
from torch import nn

torch.manual_seed(0)


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.scale = nn.Parameter(torch.randn(2, 3)), nn.Parameter(torch.ones(2))

    def forward(self, x):
{own}        return (x @ self.w.t()).tanh() * self.scale


net = Normed()
x = torch.randn(4, 3, requires_grad=True)
loss = net(x).square().sum()
with torch.no_grad():
    for p in net.parameters():
        p.mul_(0.5)
print(net.w.grad)
loss.backward()
print(round(net.w.grad.sum().item(), 4), round(net.scale.sum().item(), 4))
"""


@pytest.mark.parametrize("own", ["", "        self.scale.data.clamp_(max=0.8)\n"])
def test_only_a_module_that_writes_nothing_is_safe(own, tmp_path):
    """What a forward writes to its weights would go to the copies."""
    source = NORMED.format(own=own)
    (tmp_path / "train.py").write_text(source)
    forks.python(tmp_path, "-m", "outplace", "fix", "train.py")
    text = (tmp_path / "train.py").read_text()
    assert (text == source) if own else (f"loss = {COPIES.format('net', 'x')}" in text)
