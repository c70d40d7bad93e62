"""Whose memory a tensor lies in decides what a repair may do: of a module, of an object, of expanded tensors."""

from __future__ import annotations

import ast

import pytest

from outplace.repair.forms import no_grad
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.edits import apply

POLICY = """
import torch
from torch import nn


def mlp(sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Tanh(), {layer}]
    return nn.Sequential(*layers)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Identity()


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp([4, 8, 4])

    def sample(self, states):
        mean, log_std = self.net(states).chunk(2, -1)
        log_std.clamp_(-5, 2)
        return mean + log_std.exp(), states


policy, states = Policy(), torch.ones(2, 4)
action, _ = policy.sample(states)
(action.sum() + states.sum()).backward()
"""


def test_what_a_network_computes_is_its_own(fixed):
    source = POLICY.format(layer="nn.Linear(a, b)")
    assert fixed(source) == source.replace("log_std.clamp_(-5, 2)", "log_std = log_std.clamp(-5, 2)")


ENVIRONMENT = """
import torch
from torch import nn


class Environment:
    def __init__(self):
        self.begin()

    @torch.no_grad()
    def begin(self):
        self.state = torch.zeros(5, 3, 2)
        self.pos = self.state[..., 0]
        self.vel = self.state[..., {other}]

    def step(self, force):
        self.vel += 0.1 * force
        self.pos += 0.1 * self.vel
        return self.pos{more}


env, net = Environment(), nn.Linear(3, 3)
env.step(net(torch.ones(5, 3))).sum().backward()
"""


def test_parts_of_a_state_that_nobody_else_reads(fixed):
    source = ENVIRONMENT.format(other=1, more="")
    text = fixed(source)
    assert "self.vel = self.vel + 0.1 * force" in text
    assert "self.pos = self.pos + 0.1 * self.vel" in text


@pytest.mark.parametrize(("other", "more"), [(1, " + self.state.sum()"), (0, ""), ("-1", "")])
def test_parts_that_are_seen_elsewhere(fixed, other, more):
    """A view with grad could be written once. The second write would be one to a leaf: so the first is left, too."""
    source = ENVIRONMENT.format(other=other, more=more)
    assert fixed(source) == source


def test_a_written_value_that_is_kept_is_computed_with(fixed):
    source = """
import torch


class Stick:
    def set_velocity(self, vel):
        vel[2] = 0.0
        self.vel = vel


vel, stick = torch.ones(3, requires_grad=True), Stick()
stick.set_velocity(vel)
(stick.vel * 2).sum().backward()
"""
    assert fixed(source) == source.replace("        vel[2]", "        vel = vel.clone()\n        vel[2]")


INFERENCE = """
import torch
from torch import nn


class Observer(nn.Module):
    def __init__(self):
        super().__init__()
        self.high = None

    def forward(self, x):
        high = x.detach().amax()
        if self.high is None:
            self.high = high
        else:
            self.high.mul_(0.9).add_(high, alpha=0.1)
        return torch.minimum(x, self.high)


{mode}
def calibrate(observer):
    observer(torch.ones(3))


observer, w = Observer(), torch.ones(3, requires_grad=True)
calibrate(observer)
observer(w * 2).sum().backward()
"""


def test_a_state_that_is_begun_in_inference_mode(fixed):
    source = INFERENCE.format(mode="@torch.inference_mode()")
    assert fixed(source) == INFERENCE.format(mode="@torch.no_grad()")


def test_of_a_mode_that_is_chosen_nothing_is_known(fixed):
    source = INFERENCE.format(mode="@torch.inference_mode(torch.cuda.is_available())")
    assert "@torch.inference_mode(torch.cuda.is_available())" in fixed(source)


STREAM = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x):
        return self.lin(x)


def fade(new, old):
    new[0] = new[0] + old[0]
    return new


class Streamer:
    def __init__(self, net):
        self.net = net.eval()
        self.cache = {}

    @torch.inference_mode()
    def compute(self, x):
        return self.net(x)

    def stream(self, parts):
        for part in parts:
            out = self.compute(part)
            if "last" in self.cache:
                out = fade(out, self.cache["last"])
            self.cache["last"] = out[1:]
            yield out


streamer, head = Streamer(Net()), nn.Linear(3, 1)
head(torch.cat(list(streamer.stream(torch.ones(2, 3, 3))))).sum().backward()
"""


def test_what_was_kept_of_the_round_before_is_another_tensor(fixed):
    assert fixed(STREAM) == STREAM.replace("    new[0] =", "    new = new.clone()\n    new[0] =")


def test_a_module_that_was_built_to_write_after_a_function(fixed):
    source = """
import torch
from torch import nn


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -grad


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        x = Reverse.apply(x)
        x = self.relu(x)
        return x.sum()


w = torch.ones(3, requires_grad=True)
Head()(w * 2).backward()
"""
    assert fixed(source) == source.replace("inplace=True", "")


METER = """
import torch


class Meter:
    def __init__(self):
        self.totals, self.count = {begun}

    def update(self, name, value):
        self.totals[name] = self.totals.get(name, 0.0) + value
        self.count += 1

    def means(self):
        for name in {names}:
            self.totals[name] /= self.count
        return self.totals


meter = Meter()
with torch.inference_mode():
    meter.update("loss", torch.ones(()))
meter.means()
"""


@pytest.mark.parametrize(
    ("begun", "names"), [("{}, 0", "self.totals"), ("dict(), 0", "sorted(self.totals)"), ("{}, 0", '["loss"]')]
)
def test_an_entry_of_a_dict_that_an_object_holds(fixed, begun, names):
    source = METER.format(begun=begun, names=names)
    text = "self.totals[name] = self.totals[name] / self.count"
    assert fixed(source) == source.replace("self.totals[name] /= self.count", text)


EDITED = """
import torch
from torch import nn


def edit(net, row):
    weight = net.weight
    weight[:, 0] -= row
    weight[:, 1] += row{more}


net = nn.Linear(3, 3)
edit(net, torch.ones(3))
net(torch.ones(2, 3)).sum().backward()
"""


def test_a_name_that_is_only_written_stands_for_the_parameter(fixed):
    under = "    with torch.no_grad():\n        weight[:, 0] -= row\n        weight[:, 1] += row"
    text = fixed(EDITED.format(more=""))
    assert text == EDITED.format(more="").replace("    weight[:, 0] -= row\n    weight[:, 1] += row", under)


def test_a_name_that_is_computed_with_is_a_value(fixed):
    text = fixed(EDITED.format(more="\n    return weight.sum()"))
    assert "    weight = weight.clone()\n    weight[:, 0] -= row\n" in text


def test_a_part_of_a_parameter_that_is_initialised(fixed):
    source = """
import torch
from torch import nn

rnn = nn.LSTM(3, 4)
for i in range(1):
    bias = getattr(rnn, f"bias_hh_l{i}")
    nn.init.constant_(bias, 0)
    bias.chunk(4)[1].fill_(1)
rnn(torch.ones(2, 3))[0].sum().backward()
"""
    text = "    with torch.no_grad():\n        bias.chunk(4)[1].fill_(1)\n"
    assert fixed(source) == source.replace("    bias.chunk(4)[1].fill_(1)\n", text)


LOOP = """
import torch
from torch import nn


def masked_sum(part, mask):
    part *= mask
    return part.sum()


net, mask = nn.Linear(3, 3), torch.ones(3)
for epoch in range(2):
    total = 0.0
    stages = torch.stack([net(torch.ones(2, 3)) for _ in range(3)])
    for stage in {stages}:
        total = total + masked_sum(stage, mask){more}
    total.backward()
"""


def test_what_a_loop_alone_runs_over_is_nobody_elses(fixed):
    source = LOOP.format(stages="torch.stack([net(torch.ones(2, 3)) for _ in range(3)])", more="")
    assert fixed(source) == source.replace("part *= mask", "part = part * mask")


def test_what_the_loop_reads_again_is_to_see_the_write(fixed):
    source = LOOP.format(stages="stages", more=" + stage.sum()")
    assert fixed(source) == source


ENTRIES = """
import torch
from torch import nn


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


def passed(outputs):
    return {{key: Straight.apply(value) for key, value in outputs.items()}}


net = nn.Linear(3, 3)
outputs = {{"a": net(torch.ones(2, 3)), "b": net(torch.ones(2, 3))}}
outputs = passed(outputs)
a = outputs["a"]
a[a < 0] = 0.0
(a.sum() + outputs["{key}"].sum()).backward()
"""


def test_an_entry_of_a_dict_whose_others_are_read(fixed):
    assert "a = a.masked_fill(a < 0, 0.0)" in fixed(ENTRIES.format(key="b"))


def test_an_entry_of_a_dict_that_is_read_there_again(fixed):
    source = ENTRIES.format(key="a")
    assert fixed(source) == source.replace("return x\n", "return x.clone()\n")  # both names see the write


def test_an_expanded_buffer_is_copied_where_it_is_registered(fixed):
    source = """
import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("running", torch.eye(3).expand(2, 3, 3))

    @torch.no_grad()
    def update(self, new):
        self.running.mul_(0.9).add_(new)


norm = Norm()
norm.update(torch.ones(2, 3, 3))
"""
    assert fixed(source) == source.replace(".expand(2, 3, 3)", ".expand(2, 3, 3).clone()")


OBJECT = """
import torch
from torch import nn


class Body:
    def __init__(self, speed):
        self.speed = speed


lin = nn.Linear(3, 3)
kept = lin(torch.ones(3))
body = Body({speed})
squared = body.speed.square()
body.speed.data[0] = 0
(body.speed.sum() + squared.sum() + kept.sum()).backward()
"""


def test_an_attribute_that_was_given_a_tensor_of_its_own(fixed):
    source = OBJECT.format(speed="lin(torch.ones(3))")
    after = "body.speed = body.speed.clone()\nbody.speed[0] = 0"
    assert fixed(source) == source.replace("body.speed.data[0] = 0", after)


def test_an_attribute_whose_tensor_somebody_else_has(fixed):
    assert "body.speed = " not in fixed(OBJECT.format(speed="kept"))


def test_what_data_is_given_is_copied_where_it_is_loaded_later(fixed):
    source = """
    import torch
    from torch import nn

    conv = nn.Conv2d(6, 6, 2, groups=6)
    conv.weight.data = torch.ones(1, 1, 2, 2).expand(6, -1, -1, -1)
    conv.load_state_dict(torch.load("checkpoint"))
    """
    assert "expand(6, -1, -1, -1).clone()\n" in fixed(source)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("    def step", "    @torch.no_grad()\n    def step"),
        ("    for row", "    loss = closure()\n        for row"),
        ("    for row", "    loss = self.evaluate().backward()\n        for row"),
        ("(torch.optim.Optimizer)", ""),
        ("def step", "def project"),
    ],
    ids=["plain", "decorated", "with a closure", "with a backward", "no optimizer", "no step"],
)
def test_an_optimizer_steps_under_no_grad(old, new):
    source = """import torch


class Rows(torch.optim.Optimizer):
    def step(self, closure=None):
        for row in self.rows:
            row.weight.mul_(0.9)
"""
    assert old in source
    changed = source.replace(old, new) if old else source
    code = Code("a.py", changed)
    edits = no_grad.decorated_step(code, code.every(ast.Expr)[-1])
    if old:
        assert edits is None
    else:
        assert apply(source, edits) == source.replace("    def step", "    @torch.no_grad()\n    def step")
