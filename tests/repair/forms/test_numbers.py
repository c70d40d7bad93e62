"""Orders of steps, hooks, flags and updates: what the repaired programs compute, against the same done by hand.

By hand means: in Python's own numbers, with slopes by central differences, without torch. What has no steps in it is
compared with numerical differentiation of its original forward.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
from differences import verdict
from test_step_order import ways

RATE, STEP = 0.1, 1e-6
HEAD = """
import torch

def number(value):
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)

"""


def slopes(function: Callable[..., float], *at: float) -> list[float]:
    found = []
    for index in range(len(at)):
        ends = [[a + sign * STEP * (i == index) for i, a in enumerate(at)] for sign in (1, -1)]
        found.append((function(*ends[0]) - function(*ends[1])) / (2 * STEP))
    return found


def stepped(function: Callable[..., float], *at: float) -> list[float]:
    """A step of gradient descent."""
    return [a - RATE * slope for a, slope in zip(at, slopes(function, *at), strict=True)]


def after(source: str, *names: str) -> list[float]:
    """What a program leaves in these names."""
    known: dict[str, Any] = {}
    exec(source, known)
    return [value.item() if hasattr(value := known[name], "item") else value for name in names]


def close(values: list[float]) -> Any:
    return pytest.approx(values, rel=1e-7)


# -- steps between forward and backward -------------------------------------------------------------------------------

CARRIED = """
w, u = number(0.7), number(-0.4)
opt = torch.optim.SGD([w, u], lr=0.1)
h = torch.tensor(0.2, dtype=torch.float64)
for x in (0.5, -0.3, 0.8):
    h = torch.tanh(w * x + u * h)
    opt.zero_grad()
    ((h - 0.1) ** 2).backward(retain_graph=True)  # backward
    opt.step()  # step
"""


def test_carried_state():
    (text,) = ways(HEAD + CARRIED, held={"h": "tensor"}, loss_is_older=False).values()
    w, u, h = 0.7, -0.4, 0.2
    for x in (0.5, -0.3, 0.8):
        last, h = h, math.tanh(w * x + u * h)
        w, u = stepped(lambda w, u, x=x, last=last: (math.tanh(w * x + u * last) - 0.1) ** 2, w, u)
    assert after(text, "w", "u", "h") == close([w, u, h])


GAN = """
g, d = number(0.6), number(0.9)
opt_g, opt_d = torch.optim.SGD([g], lr=0.1), torch.optim.SGD([d], lr=0.1)
for z, real in ((0.5, 1.1), (-0.7, 0.8)):
    fake = g * z
    d_real, d_fake = torch.tanh(d * real), torch.tanh(d * {given})
    loss_d = d_fake - d_real
    loss_g = -{own}
    opt_d.zero_grad()
    loss_d.backward(retain_graph=True)
    opt_d.step()  # step
    opt_g.zero_grad()
    loss_g.backward()  # backward
    opt_g.step()
"""


@pytest.mark.parametrize(("given", "own"), [("fake.detach()", "torch.tanh(d * fake)"), ("fake", "d_fake")])
def test_a_loss_that_is_computed_after_the_step(given, own):
    source = HEAD + GAN.format(given=given, own=own)
    found = ways(source, held={"d_fake": "tensor", "loss_g": "tensor"}, loss_is_older=True)
    *_, text = [text for title, text in found.items() if title.startswith("Compute")]
    g, d = 0.6, 0.9
    for z, real in ((0.5, 1.1), (-0.7, 0.8)):
        (d,) = stepped(lambda d, g=g, z=z, real=real: math.tanh(d * g * z) - math.tanh(d * real), d)
        (g,) = stepped(lambda g, d=d, z=z: -math.tanh(d * g * z), g)
    assert after(text, "g", "d") == close([g, d])


def test_a_value_that_is_made_in_each_round():
    source = """
g, d = number(0.6), number(0.9)
opt = torch.optim.SGD([g, d], lr=0.1)
fake = torch.sin(g * 0.5)
for _ in range(3):
    opt.zero_grad()
    loss = -torch.tanh(d * fake)
    loss.backward(retain_graph=True)  # backward
    opt.step()  # step
"""
    (text,) = ways(HEAD + source, held={"fake": "tensor", "loss": "tensor"}, loss_is_older=False).values()
    g, d = 0.6, 0.9
    for _ in range(3):
        g, d = stepped(lambda g, d: -math.tanh(d * math.sin(g * 0.5)), g, d)
    assert after(text, "g", "d") == close([g, d])


CRITIC = """
a, c = number(0.3), number(0.8)
opt_a, opt_c = torch.optim.SGD([a], lr=0.1), torch.optim.SGD([c], lr=0.1)
for state in (0.5, -0.9):
    value = torch.tanh(c * state)
    opt_c.zero_grad()
    ((value - 0.4) ** 2).backward(retain_graph=True)
    opt_c.step()  # step
    opt_a.zero_grad()
    (-torch.sin(a * state) * value).backward()  # backward
    opt_a.step()
"""


@pytest.mark.parametrize("detached", [True, False])
def test_a_value_that_is_used_again_after_the_step(detached):
    known = {"for_the_step": ["value"]} if detached else {}
    (text,) = ways(HEAD + CRITIC, held={"value": "tensor"}, loss_is_older=False, **known).values()
    a, c = 0.3, 0.8
    for state in (0.5, -0.9):
        old = c
        (c,) = stepped(lambda c, state=state: (math.tanh(c * state) - 0.4) ** 2, c)
        value = math.tanh((old if detached else c) * state)
        (a,) = stepped(lambda a, state=state, value=value: -math.sin(a * state) * value, a)
    assert after(text, "a", "c") == close([a, c])


def test_one_step_after_the_loop():
    source = """
w = number(0.7)
opt = torch.optim.SGD([w], lr=0.1)
losses = [torch.sin(w * x) ** 2 for x in (0.5, -0.3, 0.8)]
for loss in losses:
    loss.backward()  # backward
    opt.step()  # step
"""
    (text,) = ways(HEAD + source, loss_is_older=True).values()
    (w,) = stepped(lambda w: sum(math.sin(w * x) ** 2 for x in (0.5, -0.3, 0.8)), 0.7)
    assert after(text, "w") == close([w])


def test_an_average_that_waits_for_the_backward():
    source = """
student, teacher = number(0.7), number(0.2)
opt = torch.optim.SGD([student], lr=0.1)
def average():
    with torch.no_grad():
        teacher.mul_(0.9).add_(0.1 * student)
for x in (0.5, -0.3):
    loss = (torch.sin(student * x) * teacher - 0.5) ** 2
    average()  # step
    opt.zero_grad()
    loss.backward()  # backward
    opt.step()
"""
    (text,) = ways(HEAD + source, by_optimizer=False).values()
    student, teacher = 0.7, 0.2
    for x in (0.5, -0.3):
        (new,) = stepped(lambda s, t=teacher, x=x: (math.sin(s * x) * t - 0.5) ** 2, student)
        student, teacher = new, 0.9 * teacher + 0.1 * student
    assert after(text, "student", "teacher") == close([student, teacher])


# -- updates of leaves ------------------------------------------------------------------------------------------------

UPDATES = {
    "w -= 0.1 * w.grad": [1.0, 1.0],
    "w.sub_(w.grad, alpha=0.1)": [1.0, 1.0],
    "w.add_(-0.1 * w.grad)": [1.0, 1.0],
    "w[0] -= 0.1 * w.grad[0]": [1.0, 0.0],
    "w.view(-1)[1] -= 0.1 * w.grad[1]": [0.0, 1.0],
}


@pytest.mark.parametrize("update", UPDATES)
def test_an_update_by_hand(fixed, update):
    source = f"""
import torch

w = torch.tensor([0.4, -0.7], dtype=torch.float64, requires_grad=True)
for x in (0.5, -0.3, 0.8):
    loss = torch.sin(w[0] * x) * torch.exp(w[1])
    loss.backward()
    {update}
    w.grad.zero_()
first, second = w.tolist()
"""
    first, second = 0.4, -0.7
    for x in (0.5, -0.3, 0.8):
        new = stepped(lambda a, b, x=x: math.sin(a * x) * math.exp(b), first, second)
        first, second = (n if share else o for n, o, share in zip(new, (first, second), UPDATES[update], strict=True))
    assert after(fixed(source), "first", "second") == close([first, second])


@pytest.mark.parametrize(
    ("write", "weight", "bias"),
    [
        ("layer.weight.fill_(0.3)", 0.3, None),
        ("layer.weight[0, 0] = 0.3\nlayer.bias.zero_()", 0.3, 0.0),
        ("layer.bias.copy_(layer.weight[0] * 2)\nlayer.weight *= 0.5", 0.25, 1.0),
        ("layer.bias.view(1, -1)[:, 0] += 0.5", None, 0.75),
    ],
)
def test_weights_that_are_set(fixed, write, weight, bias):
    """The leaves stay leaves, hold what was written, and get the gradient of what they then compute."""
    source = f"""
import torch

layer = torch.nn.Linear(1, 1).double()
torch.nn.init.constant_(layer.weight, 0.5)
torch.nn.init.constant_(layer.bias, 0.25)
{write}
loss = torch.sin(layer(torch.ones(1, 1, dtype=torch.float64))).sum()
loss.backward()
weight, bias = layer.weight.item(), layer.bias.item()
by_weight, by_bias = layer.weight.grad.item(), layer.bias.grad.item()
"""
    weight, bias = 0.5 if weight is None else weight, 0.25 if bias is None else bias
    expected = [weight, bias, *slopes(lambda w, b: math.sin(w + b), weight, bias)]
    assert after(fixed(source), "weight", "bias", "by_weight", "by_bias") == close(expected)


# -- modules ----------------------------------------------------------------------------------------------------------

MODULE = """import torch
from torch import nn

x = torch.linspace(-1.213, 1.371, 6, dtype=torch.float64).requires_grad_()
w = torch.linspace(1.117, 0.429, 6, dtype=torch.float64).requires_grad_()
leaves = [x, w]
{body}
loss = (y * w).sum()
loss.backward()
"""
FLAGS = [
    "nn.ReLU(True)", "nn.ReLU(inplace=True)", "nn.ReLU6(inplace=True)", "nn.LeakyReLU(0.2, True)",
    "nn.LeakyReLU(negative_slope=0.2, inplace=True)", "nn.ELU(inplace=True)", "nn.CELU(0.7, True)", "nn.SELU(True)",
    "nn.SiLU(inplace=True)", "nn.Mish(inplace=True)", "nn.Hardswish(inplace=True)", "nn.Hardsigmoid(inplace=True)",
    "nn.Hardtanh(-0.5, 0.5, inplace=True)", "nn.Threshold(0.1, 0.0, True)", "nn.Dropout(0.5, inplace=True)",
    "nn.Sequential(nn.SiLU(True), nn.Tanh(), nn.ELU(inplace=True))",
]  # fmt: skip


@pytest.mark.parametrize("made", FLAGS)
def test_flags_of_modules(fixed, made):
    body = f"torch.manual_seed(0)\nact = {made}\nh = torch.tanh(x) * w\nz = h.sin()\ny = act(h) + z"
    source = MODULE.format(body=body)
    text = fixed(source)
    assert "True" not in text
    assert verdict(source, text) == "mended"


BUILT = {
    "a factory": """
        def activation(name):
            if name == "silu":
                return nn.SiLU(inplace=True)
            return nn.Tanh()
        act = activation("silu")
    """,
    "a dict": """
        KINDS = {"silu": nn.SiLU(inplace=True), "tanh": nn.Tanh()}
        act = KINDS["silu"]
    """,
    "a partial": """
        from functools import partial
        class Block(nn.Module):
            def __init__(self, layer=nn.SiLU):
                super().__init__()
                self.inner = layer()
            def forward(self, value):
                return self.inner(value)
        act = nn.Sequential(Block(partial(nn.SiLU, inplace=True)))
    """,
    "computed names": """
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                for i in range(2):
                    setattr(self, f"act{i}", nn.SiLU(True))
            def forward(self, value):
                return getattr(self, "act1")(value)
        act = Block()
    """,
    "a class attribute": """
        class Base(nn.Module):
            kind = nn.SiLU
            def __init__(self):
                super().__init__()
                self.inner = self.kind(inplace=True)
        class Block(Base):
            def forward(self, value):
                return self.inner(value)
        act = Block()
    """,
    "copies": """
        import copy
        act = nn.ModuleList([copy.deepcopy(nn.Sequential(nn.Identity(), nn.SiLU(True))) for _ in range(2)])[1]
    """,
}


@pytest.mark.parametrize("built", BUILT.values(), ids=BUILT)
def test_flags_of_modules_wherever_they_are_built(fixed, built):
    built = textwrap.dedent(built)
    source = MODULE.format(body=f"{built}\nh = torch.tanh(x) * w\nz = h.sin()\ny = act(h) + z")
    assert verdict(source, fixed(source)) == "mended"


CALLS = ["F.relu(h, inplace=True)", "F.elu(h, 1.0, True)", "F.dropout(h, 0.5, True, True)", "F.silu(h, inplace=True)"]


@pytest.mark.parametrize("call", CALLS)
def test_flags_of_functions(fixed, call):
    body = f"import torch.nn.functional as F\ntorch.manual_seed(0)\nh = torch.tanh(x) * w\nz = h.sin()\ny = {call} + z"
    source = MODULE.format(body=body)
    assert verdict(source, fixed(source)) == "mended"


HOOKS = [
    "output *= 0.5",
    "output.mul_(0.5).add_(1)",
    "output[0] = 0",
    "output[output > 0.5] *= 2",
    "output += inputs[0]",
]


@pytest.mark.parametrize("write", HOOKS)
def test_forward_hooks(fixed, write):
    body = (
        f"def damp(module, inputs, output):\n    {write}\n\n"
        "act = nn.Sigmoid()\nact.register_forward_hook(damp)\ny = act(x * w) ** 2"
    )
    source = MODULE.format(body=body)
    assert verdict(source, fixed(source)) == "mended"


@pytest.mark.parametrize("write", HOOKS)
def test_forward_hooks_that_keep_what_they_write(fixed, write):
    body = (
        "kept = {}\n\ndef keep(name):\n    def hook(module, inputs, output):\n"
        f"        kept[name] = output\n        {write}\n    return hook\n\n"
        "act = nn.Sigmoid()\nact.register_forward_hook(keep('act'))\ny = act(x * w) ** 2 + kept['act']"
    )
    source = MODULE.format(body=body)
    text = fixed(source)
    assert "        output = output.clone()\n        kept[name] = output\n" in text
    assert verdict(source, text) == "mended"
