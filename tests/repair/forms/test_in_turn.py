"""Two or three that are trained in turn, and weights that are swapped before a backward: `outplace fix` on whole
programs, compared with the same training done by hand, without torch."""

from __future__ import annotations

import math
import textwrap

import pytest
from test_numbers import after, close, stepped

from conftest import repaired

HEAD = """
import torch
from torch import nn

torch.set_default_dtype(torch.float64)


class Scalar(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.w = nn.Parameter(torch.full((1, 1), value))

    def forward(self, x):
        return self.w * torch.tanh(self.w * x)


"""
NETS = """G, D = Scalar(0.6), Scalar(0.9)
opt_g = torch.optim.SGD(G.parameters(), lr=0.1)
opt_d = torch.optim.SGD(D.parameters(), lr=0.1)
"""
DATA = ((0.5, 1.1), (-0.7, 0.8), (0.9, -0.4))
LOOP = f"for z, real in {DATA}:\n    z, x = torch.tensor([[z]]), torch.tensor([[real]])\n"
END = "g, d = G.w.item(), D.w.item()\n"


def f(w: float, x: float) -> float:
    """A network, by hand."""
    return w * math.tanh(w * x)


def program(body: str, head: str = NETS, end: str = END) -> str:
    return HEAD + head + LOOP + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n" + end


GENERATOR_FIRST = """
opt_g.zero_grad()
fake = G(z)
loss_g = -torch.tanh(D(fake)).sum()
loss_g.backward(retain_graph=True)
opt_g.step()
opt_d.zero_grad()
loss_d = torch.tanh(D(fake)).sum() - torch.tanh(D(x)).sum()
loss_d.backward()
opt_d.step()
"""


def generator_first() -> list[float]:
    g, d = 0.6, 0.9
    for z, real in DATA:
        fake = f(g, z)
        (g,) = stepped(lambda g, d=d, z=z: -math.tanh(f(d, f(g, z))), g)
        (d,) = stepped(lambda d, fake=fake, real=real: math.tanh(f(d, fake)) - math.tanh(f(d, real)), d)
    return [g, d]


def test_a_fake_that_the_next_loss_is_not_to_train_is_detached():
    done = repaired(program(GENERATOR_FIRST))
    assert "loss_d = torch.tanh(D(fake.detach())).sum() - torch.tanh(D(x)).sum()\n" in done.text
    assert not done.left
    assert after(done.text, "g", "d") == close(generator_first())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("opt_g.zero_grad()\n", ""),  # what this loss leaves in G would be part of its next step
        ("opt_g.zero_grad()\n", "if x.sum() > 0:\n    opt_g.zero_grad()\n"),
        ("opt_d.step()", "opt_d.step()\nopt_g.step()"),
        ("opt_d.step()", "print(G.w.grad)\nopt_d.step()"),
        ("loss_d.backward()\nopt_d.step()", "loss_d.backward()"),
    ],
)
def test_not_where_what_is_cut_may_be_needed(old, new):
    source = program(GENERATOR_FIRST.replace(old, new))
    assert repaired(source).text == source


IN_FUNCTIONS = """
def made(z):
    return G(z)


def learn(optimizer, loss):
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()


def update_d(x, fake):
    learn(opt_d, torch.tanh(D(fake)).sum() - torch.tanh(D(x)).sum())


"""


def test_steps_and_backwards_may_stand_in_functions():
    body = "fake = made(z)\nlearn(opt_g, -torch.tanh(D(fake)).sum())\nupdate_d(x, fake)\n"
    done = repaired(program(body, NETS + IN_FUNCTIONS))
    assert "    update_d(x, fake.detach())\n" in done.text
    assert after(done.text, "g", "d") == close(generator_first())


def test_not_where_the_next_optimizer_trains_it_again():
    nets = NETS.replace("SGD(D.parameters()", "SGD([*D.parameters(), *G.parameters()]")
    source = program(GENERATOR_FIRST, nets)
    assert repaired(source).text == source
    assert "detach" not in repaired(source, unsafe=True).text


TOGETHER = """
def losses(z, x):
    score = torch.tanh(D(G(z)))
    return score.sum() - torch.tanh(D(x)).sum(), -score.sum()


"""
BOTH_FIRST = """
loss_d, loss_g = losses(z, x)
opt_d.zero_grad()
loss_d.backward(retain_graph=True)
opt_d.step()
opt_g.zero_grad()
loss_g.backward()
opt_g.step()
"""


def both_at_once() -> list[float]:
    g, d = 0.6, 0.9
    for z, real in DATA:
        (new_d,) = stepped(lambda d, g=g, z=z, real=real: math.tanh(f(d, f(g, z))) - math.tanh(f(d, real)), d)
        (g,) = stepped(lambda g, d=d, z=z: -math.tanh(f(d, f(g, z))), g)
        d = new_d
    return [g, d]


def test_two_meanings_are_left_and_named():
    source = program(BOTH_FIRST, NETS + TOGETHER)
    done = repaired(source)
    assert done.text == source
    (titles,) = done.meanings.values()
    assert [title.split()[0] for title in titles] == ["Compute", "Step"]


SHOWN = BOTH_FIRST.replace("opt_d.zero_grad()\n", "print(loss_d.item(), loss_g.item())\nopt_d.zero_grad()\n")


def test_steps_wait_for_the_last_backward_of_losses_that_were_shown():
    done = repaired(program(SHOWN, NETS + TOGETHER))
    assert "    loss_g.backward(inputs=list(G.parameters()))\n    opt_d.step()\n    opt_g.step()\n" in done.text
    assert not done.left
    assert after(done.text, "g", "d") == close(both_at_once())


IN_A_DICT = """nets = {"G": Scalar(0.6), "D": Scalar(0.9)}
weights = list(nets["D"].parameters())
opt_g = torch.optim.SGD(nets["G"].parameters(), lr=0.1)
opt_d = torch.optim.SGD(weights, lr=0.1)
G, D = nets["G"], nets["D"]
"""


def test_networks_of_a_dict_and_a_report_of_gradients():
    done = repaired(program(SHOWN, IN_A_DICT + TOGETHER, END + "print(G.w.grad)\n"))
    given = '[weight for group in opt_g.param_groups for weight in group["params"]]'
    assert f"    loss_g.backward(inputs={given})\n    opt_d.step()\n    opt_g.step()\n" in done.text
    assert after(done.text, "g", "d") == close(both_at_once())


@pytest.mark.parametrize(
    "nets",
    [
        IN_A_DICT.replace("opt_g =", 'weights.extend(nets["G"].parameters())\nopt_g ='),
        IN_A_DICT.replace("opt_g =", 'weights += list(nets["G"].parameters())\nopt_g ='),
        IN_A_DICT + "for name in nets:\n    print(nets[name].w.grad)\n",
    ],
)
def test_networks_of_which_not_all_is_known(nets):
    text = program(BOTH_FIRST, nets + TOGETHER)
    assert repaired(text).text == text


def test_an_optimizer_that_was_told_more_than_one_network():
    nets = NETS.replace("SGD(G.parameters()", "SGD([*G.parameters(), *E.parameters()]").replace(
        "G, D", "E = Scalar(1.0)\nG, D"
    )
    done = repaired(program(SHOWN, nets + TOGETHER))
    given = '[weight for group in opt_g.param_groups for weight in group["params"]]'
    assert f"loss_g.backward(inputs={given})\n" in done.text
    assert after(done.text, "g", "d") == close(both_at_once())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("opt_g.zero_grad()\n", "opt_g.zero_grad()\nopt_d.zero_grad()\n"),  # that would take D's step what waits for it
        ("opt_d.zero_grad()\n", ""),
        ("opt_g.zero_grad()\n", "opt_g.zero_grad()\nscores.append(D(x).item())\n"),
        ("opt_g.zero_grad()\n", "opt_g.zero_grad()\nx.requires_grad_()\n"),
        ("loss_g.backward()", "loss_g.backward(inputs=[G.w])"),
    ],
)
def test_steps_that_do_not_wait(old, new):
    source = program(BOTH_FIRST.replace(old, new), NETS + TOGETHER + "scores = []\n")
    assert repaired(source).text == source
    assert "opt_d.step()\n    opt_g.step()\n" not in repaired(source, unsafe=True).text


def test_steps_do_not_wait_where_both_hold_the_same_weights():
    nets = NETS.replace("SGD(D.parameters()", "SGD([*D.parameters(), *G.parameters()]")
    source = program(BOTH_FIRST, nets + TOGETHER)
    assert repaired(source).text == source
    assert "opt_d.step()\n    opt_g.step()\n" not in repaired(source, unsafe=True).text


THREE = """
code = E(x)
image = G(code)
score = torch.tanh(D(image))
distance = (image - x).pow(2).sum()
loss_e = distance + 0.1 * code.pow(2).sum()
loss_g = distance - 0.2 * score.sum()
loss_d = score.sum()
opt_e.zero_grad()
loss_e.backward(retain_graph=True)
opt_e.step()
opt_g.zero_grad()
loss_g.backward(retain_graph=True)
opt_g.step()
opt_d.zero_grad()
loss_d.backward()
opt_d.step()
"""


def test_three_of_them():
    nets = NETS + "E = Scalar(0.8)\nopt_e = torch.optim.SGD(E.parameters(), lr=0.1)\n"
    done = repaired(program(THREE, nets, END + "e = E.w.item()\n"), unsafe=True)
    assert "opt_e.step()\n    opt_g.step()\n    opt_d.step()\n" in done.text
    e, g, d = 0.8, 0.6, 0.9
    for _, x in DATA:
        (new_e,) = stepped(lambda e, g=g, x=x: (f(g, f(e, x)) - x) ** 2 + 0.1 * f(e, x) ** 2, e)
        (new_g,) = stepped(lambda g, e=e, d=d, x=x: (f(g, f(e, x)) - x) ** 2 - 0.2 * math.tanh(f(d, f(g, f(e, x)))), g)
        (d,) = stepped(lambda d, e=e, g=g, x=x: math.tanh(f(d, f(g, f(e, x)))), d)
        e, g = new_e, new_g
    assert after(done.text, "e", "g", "d") == close([e, g, d])


SCORE_REUSED = """
opt_d.zero_grad()
with nullcontext():
    d_real, d_fake = torch.tanh(D(x)), torch.tanh(D(G(z)))
    loss_d = (d_fake - d_real).sum()
loss_d.backward(retain_graph=True)
opt_d.step()
opt_g.zero_grad()
with nullcontext():
    loss_g = -d_fake.sum()
loss_g.backward()
opt_g.step()
"""


def test_a_score_that_is_used_again_is_made_anew_where_it_was_made():
    source = program(SCORE_REUSED, "from contextlib import nullcontext\n" + NETS)
    assert repaired(source).text == source
    text = repaired(source, unsafe=True).text
    assert "    with nullcontext():\n        d_fake = torch.tanh(D(G(z)))\n        loss_g = -d_fake.sum()\n" in text
    g, d = 0.6, 0.9
    for z, real in DATA:
        (d,) = stepped(lambda d, g=g, z=z, real=real: math.tanh(f(d, f(g, z))) - math.tanh(f(d, real)), d)
        (g,) = stepped(lambda g, d=d, z=z: -math.tanh(f(d, f(g, z))), g)
    assert after(text, "g", "d") == close([g, d])


def test_not_under_another_context():
    source = program(
        SCORE_REUSED.replace("nullcontext", "wide", 1),
        "from contextlib import nullcontext\n\nwide = nullcontext\n" + NETS,
    )
    assert repaired(source, unsafe=True).text == source


SHARED = """
feature = torch.tanh(T(x))
policy = torch.distributions.Normal(A(feature), 1.0)
action = policy.sample() * 0 + 0.3
value = C(feature)
gain = (z - value).detach()
critic_loss = (z - value).pow(2).sum()
actor_loss = -(policy.log_prob(action) * gain).sum()
critic_opt.zero_grad()
critic_loss.backward(retain_graph=True)
critic_opt.step()
actor_opt.zero_grad()
actor_loss.backward()
actor_opt.step()
"""
SHARED_NETS = """T, A, C = Scalar(0.5), Scalar(0.7), Scalar(-0.6)
actor_opt = torch.optim.SGD([*T.parameters(), *A.parameters()], lr=0.1)
critic_opt = torch.optim.SGD([*T.parameters(), *C.parameters()], lr=0.1)
"""


def test_what_both_share_is_run_again_but_nothing_is_drawn_again():
    source = program(SHARED, SHARED_NETS, "t, a, c = T.w.item(), A.w.item(), C.w.item()\n")
    text = repaired(source, unsafe=True).text
    again = "feature = torch.tanh(T(x))\n    policy = torch.distributions.Normal(A(feature), 1.0)\n    actor_loss = "
    assert f"critic_opt.step()\n    {again}" in text
    assert text.count("sample()") == 1
    t, a, c = 0.5, 0.7, -0.6
    for z, x in DATA:
        gain = z - f(c, math.tanh(f(t, x)))
        t, c = stepped(lambda t, c, x=x, z=z: (z - f(c, math.tanh(f(t, x)))) ** 2, t, c)
        t, a = stepped(lambda t, a, x=x, gain=gain: gain * (0.3 - f(a, math.tanh(f(t, x)))) ** 2 / 2, t, a)
    assert after(text, "t", "a", "c") == close([t, a, c])


OLD = """
old = torch.tanh(G(x)){cut}
for _ in range(3):
    new = torch.tanh(G(x))
    ratio = torch.exp(new - old)
    loss = -(ratio * z).sum() + new.pow(2).sum()
    opt_g.zero_grad()
    loss.backward(retain_graph=True)
    opt_g.step()
"""


def test_old_values_are_detached_before_the_rounds_that_compute_new_ones():
    text = repaired(program(OLD.format(cut=""))).text
    assert "    old = torch.tanh(G(x))\n    old = old.detach()\n    for _ in range(3):\n" in text
    g = 0.6
    for z, x in DATA:
        old = math.tanh(f(g, x))
        for _ in range(3):
            (g,) = stepped(
                lambda g, old=old, z=z, x=x: -math.exp(math.tanh(f(g, x)) - old) * z + math.tanh(f(g, x)) ** 2, g
            )
    assert after(text, "g") == close([g])


POLICY = """
class Policy(Scalar):
    def score(self, x):
        return torch.tanh(self(x))


P = Policy(0.6)
opt_p = torch.optim.SGD(P.parameters(), lr=0.1)
"""


@pytest.mark.parametrize(
    ("before", "head", "inside"),
    [
        ("P.score(z)", "_ in range(3)", "P.score(z)"),
        ("P.score(z)", "n in range(3)", "P.score(z[..., n % 1 :])"),
        ("P.score(z)", "part in (z, z, z)", "P.score(part)"),
    ],
    ids=["by a method", "a part of the values", "values of the iteration"],
)
def test_old_values_of_a_policy_are_detached(before, head, inside):
    body = OLD.format(cut="").replace("new = torch.tanh(G(x))", f"new = {inside}").replace("torch.tanh(G(x))", before)
    body = body.replace("_ in range(3)", head).replace("opt_g", "opt_p")
    text = repaired(program(body, NETS + POLICY), unsafe=True).text
    assert f"    old = {before}\n    old = old.detach()\n    for {head}:\n" in text


def test_what_the_rounds_do_not_compute_themselves_is_made_anew():
    source = program(OLD.format(cut="").replace("new = torch.tanh(G(x))", "new = torch.tanh(G(z))"))
    text = repaired(source, unsafe=True).text
    assert "        old = torch.tanh(G(x))\n        ratio = torch.exp(new - old)\n" in text


SWAPPED = """
loss = (G(x) - z).pow(2).sum()
swap(average)
with torch.no_grad():
    scores.append(G(x).item())
swap(weights)
{clear}loss.backward()
opt_g.step()
weights = G.w.detach().clone()
average.lerp_(weights, 0.5)
"""
SWAP = """
weights, average, scores = torch.full((1, 1), 0.6), torch.full((1, 1), 0.2), []


def swap(values):
    with torch.no_grad():
        G.w.copy_(values)


"""


@pytest.mark.parametrize("clear", ["opt_g.zero_grad()\n", ""])
def test_weights_that_are_swapped_for_a_look_wait_for_the_backward(clear):
    text = repaired(program(SWAPPED.format(clear=clear), NETS + SWAP)).text
    moved = textwrap.indent(f"{clear}loss.backward()\nswap(average)\nwith torch.no_grad():\n", "    ")
    assert f".sum()\n{moved}" in text
    assert "    swap(weights)\n    opt_g.step()\n" in text
    g, average, scores, kept = 0.6, 0.2, [], 0.0
    for z, x in DATA:
        scores.append(f(average, x))
        (new,) = stepped(lambda g, x=x, z=z: (f(g, x) - z) ** 2, g)
        kept = (new - g) + (0.0 if clear else kept)  # without clearing, steps take the gradients of all rounds
        g += kept
        average += 0.5 * (g - average)
    found: dict[str, list[float]] = {}
    exec(text, found)
    assert found["scores"] == close(scores)
    assert found["g"] == close(g)


def test_weights_that_are_swapped_stay_where_gradients_are_taken_in_between():
    """The forward computes with copies of them then."""
    source = program(
        SWAPPED.format(clear="").replace("scores.append(G(x).item())", "scores.append(G.w.grad)"), NETS + SWAP
    )
    text = repaired(source).text
    copies = "torch.func.functional_call(G, {name: weight.clone() for name, weight in G.named_parameters()}, (x,))"
    assert text == source.replace("(G(x) - z)", f"({copies} - z)")


BINARY = """
swap(torch.sign(weights))
loss = (G(x) - z).pow(2).sum()
swap(weights)
opt_g.zero_grad()
loss.backward()
opt_g.step()
weights = G.w.detach().clone()
"""


def test_weights_that_are_swapped_for_the_forward_stay_for_the_backward():
    text = repaired(program(BINARY, NETS + SWAP)).text
    order = ["swap(torch.sign(weights))", "loss = (G(x) - z).pow(2).sum()", "opt_g.zero_grad()", "loss.backward()"]
    assert "\n    ".join([*order, "swap(weights)", "opt_g.step()"]) in text
    g = 0.6
    for z, x in DATA:
        sign = math.copysign(1, g)
        (after_sign,) = stepped(lambda w, x=x, z=z: (f(w, x) - z) ** 2, sign)
        g += after_sign - sign
    assert after(text, "g") == close([g])
