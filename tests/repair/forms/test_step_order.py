"""Steps between forward and backward: which rewrite fits which program."""

from __future__ import annotations

import textwrap

import pytest
from ordering import ways

from outplace.repair.facts.bug import Moment
from outplace.repair.forms.step_order import reorderings
from outplace.repair.syntax.edits import apply
from outplace.repair.syntax.files import Files

RNN = """
for x in data:
    out, h = net(x, h)
    opt.zero_grad()
    out.sum().backward(retain_graph=True)  # backward
    opt.step()  # step
"""


@pytest.mark.parametrize(
    ("shape", "line"),
    [
        ("tensor", "h = h.detach()"),
        ("tuple", "h = tuple(one.detach() for one in h)"),
        ("list", "h = [one.detach() for one in h]"),
    ],
)
def test_carried_state_is_detached_after_the_step(shape, line):
    (text,) = ways(RNN, held={"h": shape, "out": "tensor"}, loss_is_older=False).values()
    assert text.endswith(f"    opt.step()  # step\n    {line}\n")


def test_state_kept_by_a_module():
    (text,) = ways(RNN.replace(", h", ""), held={"net.h": "tensor"}, loss_is_older=False).values()
    assert text.endswith("    net.h = net.h.detach()\n")


BUILT = """
class Net(nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.net = nn.Linear(3, 3)
        self.penalty = self.net.weight.pow(2).sum()

    def forward(self, x):
        return self.net(x)

net = Net(0.1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x in data:
    loss = net(x).mean() + net.penalty
    loss.backward(retain_graph=True)  # backward
    opt.step()  # step
"""


def test_what_is_built_with_a_module_is_computed_anew():
    (text,) = ways(BUILT, held={"net.penalty": "tensor"}, loss_is_older=False).values()
    assert "for x in data:\n    net.penalty = net.net.weight.pow(2).sum()\n    loss = net(x)" in text
    source = BUILT.replace("return self.net(x)", "return self.net(x) * self.penalty").replace(" + net.penalty", "")
    (text,) = ways(source, held={"net.penalty": "tensor"}, loss_is_older=False).values()
    assert "        self.penalty = self.net.weight.pow(2).sum()\n        return self.net(x) * self.penalty\n" in text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("= self.net.weight", "= rate * self.net.weight"),
        ("pow(2).sum()", "pow(2).sum() * torch.rand(1)"),
        ("return self.net(x)", "return self.net(x) + self.penalty"),
        ("self.penalty = self.net.weight.pow(2).sum()", "self.penalty = 0\n        self.add()\n\n    def add(self):\n"
         "        for weight in self.parameters():\n            self.penalty = self.penalty + weight.pow(2).sum()"),
    ],
    ids=["of what only __init__ knows", "drawn at random", "read in two places", "in several steps"],
)  # fmt: skip
def test_what_is_built_otherwise_is_neither_computed_anew_nor_cut_off(old, new):
    assert old in BUILT
    assert ways(BUILT.replace(old, new), held={"net.penalty": "tensor"}, loss_is_older=False) == {}


def test_what_rounds_set_is_detached_though_it_is_built_first():
    source = BUILT.replace("return self.net(x)", "self.penalty = self.penalty + self.net(x).sum()\n        return x")
    (text,) = ways(source, held={"net.penalty": "tensor"}, loss_is_older=False).values()
    assert text.endswith("    net.penalty = net.penalty.detach()\n")


def test_a_loss_computed_too_early():
    source = """
    fake = gen(z)
    loss_d = disc(fake.detach()).mean()
    loss_g = -disc(fake).mean()
    loss_d.backward()
    opt_d.step()  # step
    opt_g.zero_grad()
    loss_g.backward()  # backward
    """
    (text,) = ways(source, held={"loss_g": "tensor"}, loss_is_older=True).values()
    assert "opt_d.step()  # step\nloss_g = -disc(fake).mean()\nopt_g.zero_grad()\n" in text
    assert text.count("loss_g = ") == 1


def test_what_both_losses_are_made_from_is_made_anew():
    source = """
    d_real, d_fake = disc(real), disc(fake)
    loss_d = d_fake.mean() - d_real.mean()
    loss_g = -d_fake.mean()
    loss_d.backward(retain_graph=True)
    opt_d.step()  # step
    loss_g.backward()  # backward
    """
    *_, text = ways(source, held={"d_fake": "tensor", "loss_g": "tensor"}, loss_is_older=True).values()
    assert "opt_d.step()  # step\nd_fake = disc(fake)\nloss_g = -d_fake.mean()\nloss_g.backward()" in text


def test_what_others_read_is_not_moved():
    source = """
    loss_g = -disc(fake).mean()
    loss_all = loss_g + loss_d
    opt_d.step()  # step
    loss_g.backward()  # backward
    """
    (text,) = ways(source, held={"loss_g": "tensor"}, loss_is_older=True).values()
    assert text.startswith("loss_g = -disc(fake).mean()\nloss_all = loss_g + loss_d\n")
    assert "# step\nloss_g = -disc(fake).mean()\nloss_g.backward()" in text


REPORTED = """
def losses(real):
    loss_d, loss_g = disc(real).mean(), -disc(gen(real)).mean()
    # in the function
    return loss_d, loss_g

for real in data:
    loss_d, loss_g = losses(real)
    opt_d.zero_grad()
    loss_d.backward()
    # before the step
    opt_d.step()  # step
    opt_g.zero_grad()
    # before the backward
    loss_g.backward()  # backward
    opt_g.step()
    print(loss_g.item())
"""


@pytest.mark.parametrize("place", ["before the step", "before the backward", "in the function"])
@pytest.mark.parametrize(
    "report",
    ["print(loss_g)", "history.append(loss_g.item())", "log['g'] = loss_g", "total = loss_g * 2; print(f'{total}')",
     "seen += float(loss_g)", "if verbose: print('%f' % loss_g)"],
)  # fmt: skip
def test_a_loss_whose_value_is_shown_keeps_it(place, report):
    found = ways(REPORTED.replace(f"# {place}", report), held={"loss_g": "tensor"}, loss_is_older=True)
    assert found
    for text in found.values():
        assert text.count("= losses(real)") == 1
        assert text.index("\n    loss_g.backward(") < text.index("\n    opt_d.step()")


@pytest.mark.parametrize(
    "other", ["print(loss_d.item())", "assert loss_g.isfinite()", "print(loss_g.shape)", "loss_all = loss_d + loss_g"]
)
def test_a_loss_whose_value_is_not_shown_is_computed_after_the_step(other):
    found = ways(REPORTED.replace("# before the step", other), held={"loss_g": "tensor"}, loss_is_older=True)
    text = next(iter(found.values()))
    assert "# step\n    opt_g.zero_grad()\n    # before the backward\n    _, loss_g = losses(real)\n" in text


def test_a_value_made_before_a_loop_is_made_in_it():
    source = """
    fake = gen(noise)
    for _ in range(3):
        opt.zero_grad()
        loss = -disc(fake).mean()
        loss.backward(retain_graph=True)  # backward
        opt.step()  # step
    """
    (text,) = ways(source, held={"fake": "tensor", "loss": "tensor"}, loss_is_older=False).values()
    assert "    opt.zero_grad()\n    fake = gen(noise)\n    loss = -disc(fake).mean()\n" in text
    (text,) = ways(f"G = Net()\n{textwrap.dedent(source).replace('gen(', 'G(')}", held={"fake": "tensor"}).values()
    assert "    fake = G(noise)\n" in text


def test_what_is_drawn_at_random_is_not_drawn_again():
    source = """
    fake = gen(torch.randn(3))
    for _ in range(3):
        loss = -disc(fake).mean()
        loss.backward(retain_graph=True)  # backward
        opt.step()  # step
    """
    assert ways(source, held={"fake": "tensor"}, loss_is_older=False) == {}


def test_what_is_trained_is_not_made_again():
    source = """
    {made}
    opt = torch.optim.SGD([scale], lr=0.1)
    for _ in range(3):
        loss = D(scale).mean()
        loss.backward(retain_graph=True)  # backward
        opt.step()  # step
    """
    for made in ("scale = weight(3)", "scale = torch.ones(3).requires_grad_()", "scale = Scale(3)"):
        assert ways(source.format(made=made), held={"scale": "tensor"}, loss_is_older=False) == {}


def test_rounds_with_optimizers_of_their_own_step_in_a_second_loop():
    source = """
    acts = actors(obs)
    for agent in agents:
        loss = agent.critic(acts).mean()
        loss.backward(retain_graph=True)  # backward
        agent.opt.step()  # step
    """
    (text,) = ways(source, held={"acts": "tensor"}, loss_is_older=False).values()
    assert text.endswith("  # backward\nfor agent in agents:\n    agent.opt.step()  # step\n")


USED_AGAIN = """
value = critic(state)
critic_loss = (value - target).pow(2).mean()
critic_loss.backward(retain_graph=True)
opt_c.step()  # step
actor_loss = -(log_prob * value).mean()
actor_loss.backward()  # backward
"""


def test_what_trains_only_what_was_stepped_is_detached():
    (text,) = ways(USED_AGAIN, held={"value": "tensor"}, for_the_step=["value"], loss_is_older=False).values()
    assert "-(log_prob * value.detach()).mean()" in text


def test_it_is_made_anew_where_its_graph_goes_on():
    source = USED_AGAIN.replace("actor_loss =", "probe(value.detach()).backward()\nopt_p.step()\nactor_loss =", 1)
    (text,) = ways(source, held={"value": "tensor"}, loss_is_older=False).values()
    assert "opt_p.step()\nvalue = critic(state)\nactor_loss" in text


def test_what_trains_others_too_is_made_anew():
    (text,) = ways(USED_AGAIN, held={"value": "tensor"}, loss_is_older=False).values()
    assert "# step\nvalue = critic(state)\nactor_loss" in text


def test_a_loss_of_before_the_step_is_cut_off_from_what_was_stepped():
    source = """
    value = critic(state)
    critic_loss = (value - target).pow(2).mean()
    gain = log_prob * value
    actor_loss = -gain.mean()
    critic_loss.backward(retain_graph=True); opt_c.step()  # step
    actor_loss.backward()  # backward
    print(actor_loss)
    """
    known = {"held": {"value": "tensor", "actor_loss": "tensor"}, "for_the_step": ["value"], "loss_is_older": True}
    text = next(iter(ways(source, **known).values()))
    assert "gain = log_prob * value.detach()\n" in text and text.count("detach") == 1
    shared = source.replace("(value - target)", "(value - target + gain.detach())")
    assert not any("detach(): " in title or "value.detach()" in text for title, text in ways(shared, **known).items())


GAN_MODEL = """
class Model:
    def forward(self, x):
        self.fake = self.gen(x)
        self.loss_g = -self.disc(self.fake).mean()
        self.loss_d = self.disc(self.fake.detach()).mean()

    def optimize(self, x):
        self.forward(x)
        self.loss_d.backward()
        self.opt_d.step()  # step
        self.opt_g.zero_grad()
        self.loss_g.backward()  # backward
        self.opt_g.step()
"""


def test_a_loss_that_a_method_has_kept_is_computed_after_the_step():
    text, *_ = ways(GAN_MODEL, held={"self.loss_g": "tensor"}, loss_is_older=True).values()
    step, line = "        self.opt_d.step()  # step\n", "        self.loss_g = -self.disc(self.fake).mean()\n"
    assert text == GAN_MODEL.lstrip("\n").replace(line, "").replace(step, step + line)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("-self.disc(self.fake)", "-self.disc(x)"),
        ("        self.loss_d = ", "        print(self.loss_g)\n        self.loss_d = "),
        ("        self.loss_d.backward()", "        self.fake = None\n        self.loss_d.backward()"),
    ],
)
def test_a_kept_loss_that_is_needed_where_it_is(old, new):
    found = ways(GAN_MODEL.replace(old, new), held={"self.loss_g": "tensor"}, loss_is_older=True)
    assert not any(title.startswith("Compute") for title in found)


METHODS = """
class Model:
    def compute_g(self):
        score = self.disc(self.fake)
        self.loss_g = -score.mean()
        self.loss_g = self.loss_g + self.weight(score)

    def optimize(self, x):
        self.forward(x)
        self.compute_g()
        self.opt_d.zero_grad()
        self.loss_d.backward()
        self.opt_d.step()  # step
        self.loss_g.backward()  # backward
"""


def test_a_method_that_computes_a_loss_is_called_after_the_step():
    (text,) = ways(METHODS, held={"self.loss_g": "tensor"}, loss_is_older=True).values()
    step, line = "        self.opt_d.step()  # step\n", "        self.compute_g()\n"
    assert text == METHODS.lstrip("\n").replace(line, "").replace(step, step + line)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        self.opt_d.zero_grad()", "        print(self.loss_g)"),
        ("        self.opt_d.zero_grad()", "        self.fake = None"),
        ("        self.loss_g = self.loss_g", "        score.sum().backward()\n        self.loss_g = self.loss_g"),
        ("        self.forward(x)", "        self.compute_g()"),
    ],
)
def test_a_method_that_is_needed_where_it_is_called(old, new):
    assert ways(METHODS.replace(old, new), held={"self.loss_g": "tensor"}, loss_is_older=True) == {}


def test_a_function_of_the_training_that_is_called_step(fixed):
    source = """
    import torch

    net = torch.nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)


    def step(x):
        loss = net(net(x).expand(3)).sum()
        opt.zero_grad()
        with torch.no_grad():
            net.weight.clamp_(-1, 1)
        loss.backward()
        opt.step()


    for _ in range(2):
        step(torch.ones(3))
    """
    late = "    loss.backward()\n    with torch.no_grad():\n        net.weight.clamp_(-1, 1)\n    opt.step()\n"
    assert late in fixed(source)


def test_state_that_an_object_keeps_is_detached_where_it_steps():
    main = "for x in data:\n    loss = trainer.round(x)  # step # backward\n"
    trainer = """
class Trainer:
    def round(self, x):
        self.h = self.cell(x, self.h)
        loss = self.h.sum()
        loss.backward()
        self.opt.step()
        return loss
"""
    files = Files({"main.py": main, "trainer.py": trainer}, may_read=False)
    moment = Moment("main.py", 2, 2, held={"trainer.h": "tensor"}, loss_is_older=False)
    first = next(iter(reorderings(files.code("main.py"), moment, files)))
    assert first.file == "trainer.py"
    assert "        self.opt.step()\n        self.h = self.h.detach()\n" in apply(trainer, first.edits)


def test_steps_go_behind_the_loop_where_a_later_round_goes_backward():
    source = """
    def run(schedule):
        for kind, part in schedule:
            if kind == "F":
                forward(part)
                continue
            backward(part)  # backward
            for stage in stages:
                stage.opt.step()  # step
        return stages
    """
    (text,) = ways(source, loss_is_older=True).values()
    assert (
        "        backward(part)  # backward\n    for stage in stages:\n        stage.opt.step()  # step\n    return"
        in text
    )


def test_not_where_each_round_clears_the_gradients():
    source = """
    for loss in losses:
        opt.zero_grad()
        loss.backward()  # backward
        opt.step()  # step
    """
    assert ways(source, loss_is_older=True) == {}


def test_an_update_by_hand_waits_for_the_backward():
    source = """
    loss = (online(x) - target(x)).pow(2).mean()
    soft_update(online, target)  # step
    opt.zero_grad()
    loss.backward()  # backward
    opt.step()
    """
    (text,) = ways(source, by_optimizer=False).values()
    assert "opt.zero_grad()\nloss.backward()  # backward\nsoft_update(online, target)  # step\nopt.step()\n" in text


def test_from_the_source_it_takes_a_flag(fixed):
    source = """
    import torch

    cell = torch.nn.GRUCell(3, 3)
    opt = torch.optim.SGD(cell.parameters(), lr=0.1)
    h = torch.zeros(1, 3)
    for _ in range(4):
        h = cell(torch.ones(1, 3), h)
        h.sum().backward(retain_graph=True)
        opt.step()
    """
    assert "detach" not in fixed(source)
    assert fixed(source, unsafe=True).endswith("    opt.step()\n    h = h.detach()\n")


AUTOENCODER = """
z = enc(x)
score = disc(z)
(dec(z) - score).sum().backward(retain_graph=True)
opt.step()  # step
loss = score.mean()
loss.backward()  # backward
other.step()
"""
HELD = {"z": "tensor", "score": "tensor", "loss": "tensor"}


def test_what_is_not_trained_again_is_detached_where_a_value_is_made_anew():
    known = {"for_the_step": ["z"], "optimizers": {"opt": True, "other": False}}
    text, *_ = ways(AUTOENCODER, held=HELD, loss_is_older=False, **known).values()
    assert "opt.step()  # step\nscore = disc(z.detach())\nloss = score.mean()\n" in text


def test_what_is_trained_again_is_not_detached():
    known = {"for_the_step": ["z"], "optimizers": {"opt": True, "other": True}}
    texts = ways(AUTOENCODER, held=HELD, loss_is_older=False, **known).values()
    assert any("z = enc(x)\nscore = disc(z)\nloss = score.mean()\n" in text for text in texts)
    assert not any(".detach()" in text for text in texts)


def test_a_loss_that_is_added_to_is_cut_off_as_a_whole():
    source = """
    fake = gen(z)
    loss_g = -disc(fake).mean()
    loss_d = disc(real).mean()
    loss_d = loss_d + disc(fake).mean()
    loss_g.backward(retain_graph=True)
    opt_g.step()  # step
    loss_d.backward()  # backward
    opt_d.step()
    """
    known = {"for_the_step": ["fake"], "optimizers": {"opt_g": True, "opt_d": False}}
    text, *_ = ways(source, held={"fake": "tensor", "loss_d": "tensor"}, loss_is_older=True, **known).values()
    assert "loss_d = loss_d + disc(fake.detach()).mean()\n" in text
    assert "loss_g = -disc(fake).mean()\n" in text


def test_the_others_are_detached_where_several_are_trained_in_turn():
    source = """
    mu = [agent.actor(o) for agent, o in zip(agents, obs)]
    for i, agent in enumerate(agents):
        joint = torch.cat([states, *mu], dim=1)
        loss = -agent.critic(joint).mean() + torch.stack(mu).mean()
        loss.backward(retain_graph=True)  # backward
        agent.opt.step()  # step
    """
    others = "one if number == i else one.detach() for number, one in enumerate(mu)"
    text, *_ = ways(source, held={"mu": "list", "joint": "tensor"}, loss_is_older=False).values()
    assert f"    joint = torch.cat([states, *({others})], dim=1)\n" in text
    assert f" + torch.stack([{others}]).mean()\n" in text


def test_the_others_are_detached_for_who_is_told_whose_turn_it_is():
    source = """
    logits = [net(x) for net in nets]
    for i, net in enumerate(nets):
        loss = ce(logits[i], y) + imitation(logits, i) + scale * len(logits)
        loss.backward(retain_graph=True)  # backward
        opts[i].step()  # step
    """
    text, *_ = ways(source, held={"logits": "list"}, loss_is_older=False).values()
    others = "[one if number == i else one.detach() for number, one in enumerate(logits)]"
    assert f"ce(logits[i], y) + imitation({others}, i) + scale * len(logits)\n" in text


def test_another_one_of_a_list_is_detached():
    source = """
    logits = [net(x) for net in nets]
    losses = []
    for i, own in enumerate(logits):
        losses.append(distance(own, logits[1 - i]) + logits[i].mean())
    for opt, loss in zip(opts, losses):
        loss.backward(retain_graph=True)  # backward
        opt.step()  # step
    """
    text, *_ = ways(source, held={"logits": "list", "losses": "list"}, loss_is_older=True).values()
    assert "    losses.append(distance(own, logits[1 - i].detach()) + logits[i].mean())\n" in text


CYCLE = """
class Model:
    def backward_d(self):
        self.loss_d = self.score(self.disc, self.real, self.fake)
        self.loss_d.backward()

    def optimize(self, x):
        self.forward(x)
        self.loss_g.backward(retain_graph=True)
        self.opt_g.step()  # step
        self.opt_d.zero_grad()
        self.backward_d()  # backward
        self.opt_d.step()


Model().optimize(x)
"""
KEPT = {
    "held": {"self.fake": "tensor", "self.loss_g": "tensor"},
    "stale": ["self.fake", "self.loss_g"],
    "for_the_step": ["self.fake"],
    "optimizers": {"self.opt_g": True, "self.opt_d": False},
    "loss_is_older": False,
}


def test_what_an_object_keeps_is_detached_where_a_method_reads_it():
    (text,) = ways(CYCLE, **KEPT).values()
    assert "self.score(self.disc, self.real, self.fake.detach())\n" in text and text.count("detach") == 1


@pytest.mark.parametrize(
    ("known", "source"),
    [
        ({"for_the_step": []}, CYCLE),  # it trains others, too
        ({"optimizers": {"self.opt_d": True}}, CYCLE),
        ({}, CYCLE.replace("Model().optimize(x)", "model = Model()\nmodel.backward_d()\nmodel.optimize(x)")),
    ],
)
def test_what_an_object_keeps_and_others_need(known, source):
    assert not any("detach" in text for text in ways(source, **{**KEPT, **known}).values())


RETURNED = """
def train_disc(real, fake):
    s_real, s_fake = disc(real), disc(fake)
    loss = s_fake.mean() - s_real.mean()
    loss.backward(retain_graph=True)
    opt_d.step()
    return loss.item(), s_fake

for real, z in data:
    loss, score = train_disc(real, gen(z))  # step
    train_gen(score)  # backward
"""


def test_what_a_function_returns_after_its_step_is_made_anew_there():
    known = {"held": {"score": "tensor"}, "stale": ["score"], "stepped_at": ("a.py", 5), "loss_is_older": False}
    (text,) = ways(RETURNED, **known).values()
    assert "    opt_d.step()\n    s_fake = disc(fake)\n    return loss.item(), s_fake\n" in text
    for old, new in (
        ("disc(fake)\n", "disc(fake + torch.randn(3))\n"),
        ("return loss", "fake = real\n    return loss"),
    ):
        assert ways(RETURNED.replace(old, new), **known) == {}


def test_all_that_is_stale_is_made_anew_and_nothing_else():
    source = """
    real, fake = features(x), features(gen(z))
    score, rest = disc(fake), noise(z)
    (score - real).mean().backward(retain_graph=True)
    opt_d.step()  # step
    loss = (fake - real).mean() - score.mean() + rest
    loss.backward()  # backward
    """
    known = {"held": dict.fromkeys(["real", "fake", "score", "rest"], "tensor"), "loss_is_older": False}
    (text,) = ways(source, stale=["fake", "score"], **known).values()
    assert "# step\nfake = features(gen(z))\nscore = disc(fake)\nloss = " in text
    (text,) = ways(source.replace("score, rest = ", "score, rest = both = "), stale=["real"], **known).values()
    assert "# step\nreal = features(x)\nloss = " in text


def test_one_of_what_a_call_gives_is_made_anew_alone():
    source = """
    score, feature = disc(fake)
    score.mean().backward(retain_graph=True)
    opt_d.step()  # step
    loss = (feature - score.detach()).mean()
    loss.backward()  # backward
    """
    known = {"held": {"score": "tensor", "feature": "tensor"}, "loss_is_older": False}
    (text,) = ways(source, stale=["score", "feature"], **known).values()
    assert "# step\n_, feature = disc(fake)\nloss = " in text


def test_a_network_that_keeps_a_computed_weight_is_not_made_anew():
    source = """
    critic = spectral_norm(nn.Linear(6, 1))
    opt = torch.optim.SGD(critic.parameters(), lr=0.1)
    score = critic(fake)
    score.mean().backward(retain_graph=True)
    opt.step()  # step
    score.std().backward()  # backward
    """
    known = {"held": {"critic.weight": "tensor", "score": "tensor"}, "stale": ["critic.weight", "score"]}
    (text,) = ways(source, loss_is_older=False, **known).values()
    assert "# step\nscore = critic(fake)\nscore.std()" in text


SHARED = """import torch
from torch import nn

a, b = nn.Linear(3, 3), nn.Linear(3, 3)
opt_a = torch.optim.SGD(a.parameters(), lr=0.1)
opt_b = torch.optim.SGD(b.parameters(), lr=0.1)
for x in torch.randn(4, 2, 3):
    first = a(x).mean()
    second = a(torch.tanh(b(x))).mean()
    opt_a.zero_grad()
    first.backward()
    opt_a.step()
    opt_b.zero_grad()
    second.backward({given})
    opt_b.step()
"""


@pytest.mark.parametrize(("given", "waits"), [("inputs=list(b.parameters())", True), ("", False)])
def test_a_backward_that_names_its_inputs_keeps_its_loss(given, waits, fixed):
    """It is a part of one gradient, which is taken at the same weights as the other parts. So the step waits."""
    text = fixed(SHARED.format(given=given))
    assert (text.index("second.backward(") < text.index("opt_a.step()")) == waits
    assert (text.index("second = ") > text.index("opt_a.step()")) != waits
