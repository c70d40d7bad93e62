"""What a loop keeps for its next round is kept detached: the repaired program prints what the right one prints."""

from __future__ import annotations

import pytest
from test_step_order import ways

import forks

PROGRAM = """import torch
from collections import deque
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
{begin}
for _ in range(4):
    out = net(torch.randn(2, 3))
    loss = out.pow(2).mean()
    {use}
    optimizer.zero_grad()
    {backward}
    optimizer.step()
    {keep}
print("RESULT", loss.item(), sum(p.grad.abs().sum().item() for p in net.parameters()))
"""
RETAINED = "loss.backward(retain_graph=True)"
KEPT = {
    "a tensor": (
        "last = None",
        "if last is not None:\n        loss = loss + (out - last).abs().mean()",
        "last = out",
        "last = out.detach()",
        {"last": "tensor"},
    ),
    "a dict": (
        "last = None",
        "if last is not None:\n        loss = loss + (out - last['image']).abs().mean()",
        "last = dict(image=out, edges=out.diff())",
        "last = {key: one.detach() for key, one in dict(image=out, edges=out.diff()).items()}",
        {"last": "dict"},
    ),
    "a dict with others": (
        "last = {}",
        "if last:\n        loss = loss + last['number'] * (out - last['image']).abs().mean()",
        "last = {'image': out, 'number': 3}",
        "last = {key: one.detach() if hasattr(one, 'detach') else one for key, one in "
        "({'image': out, 'number': 3}).items()}",
        {"last": "dict with others"},
    ),
    "states": (
        "states = [(torch.zeros(2, 3), torch.zeros(2, 3))]",
        "loss = loss + sum((h * out + c).mean() for h, c in states)",
        "states = [(out, out + 1)]",
        "states = [tuple(one.detach() for one in part) for part in ([(out, out + 1)])]",
        {"states": "list of tuple"},
    ),
    "two at once": (
        "first, second = torch.zeros(2, 3), torch.zeros(2, 3)",
        "loss = loss + (first * out + second).mean()",
        "first, second = out.exp(), out.sin()",
        "first, second = out.exp(), out.sin()\n    first = first.detach()\n    second = second.detach()",
        {"first": "tensor", "second": "tensor"},
    ),
    "an item": (
        "memory = {}",
        "loss = loss + sum((out - one).abs().mean() for one in memory.values())",
        "memory['last'] = out",
        "memory['last'] = out.detach()",
        {"memory": "dict"},
    ),
    "a window": (
        "window = deque(maxlen=2)",
        "loss = loss + sum((out - one).abs().mean() for one in window)",
        "window.append(out)",
        "window.append(out.detach())",
        {"window": "deque"},
    ),
    "one that is made where there is none": (
        "last = None",
        "if last is None:\n        last = torch.zeros(2, 3)\n    loss = loss + (out - last).abs().mean()",
        "last = out",
        "last = out.detach()",
        {"last": "tensor"},
    ),
}


def run(folder, text, *how):
    (folder / "program.py").write_text(text)
    return forks.python(folder, *how, "program.py")


@pytest.mark.parametrize("kept", ["a dict", "a window"])
def test_it_is_kept_detached(tmp_path, kept):
    begin, use, keep, detached, _ = KEPT[kept]
    right = PROGRAM.format(begin=begin, use=use, keep=detached, backward="loss.backward()")
    wrong = PROGRAM.format(begin=begin, use=use, keep=keep, backward=RETAINED)
    meant = run(tmp_path, right)
    assert meant.returncode == 0
    done = run(tmp_path, wrong, "-m", "outplace", "run", "--fix")
    assert done.stdout == meant.stdout
    assert (tmp_path / "program.py").read_text() == right


@pytest.mark.parametrize("kept", KEPT)
def test_however_it_is_kept(kept, capsys):
    begin, use, keep, detached, held = KEPT[kept]
    wrong = PROGRAM.format(begin=begin, use=use, keep=keep, backward=f"{RETAINED}  # backward")
    wrong = wrong.replace("optimizer.step()", "optimizer.step()  # step")
    (text,) = ways(wrong, held={**held, "out": "tensor", "loss": "tensor"}, loss_is_older=False).values()
    assert text == wrong.replace(f"    {keep}\n", f"    {detached}\n")
    exec(text, {})


def test_a_graph_that_others_need_is_retained(tmp_path):
    begin, use, keep, detached, _ = KEPT["a tensor"]
    more = "scale = (net[0].bias * 0 + 1).detach().requires_grad_().exp()\n" + begin
    use += "\n    loss = loss * scale.mean()"
    wrong = PROGRAM.format(begin=more, use=use, keep=keep, backward=RETAINED)
    done = run(tmp_path, wrong, "-m", "outplace", "run", "--fix")
    assert done.returncode == 0
    right = PROGRAM.format(begin=more, use=use, keep=detached, backward=RETAINED)
    assert (tmp_path / "program.py").read_text() == right


def test_what_a_method_keeps(tmp_path):
    wrong = """import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.last = None

    def round(self, x):
        out = self.net(x)
        loss = out.pow(2).mean()
        if self.last is not None:
            loss = loss + (out - self.last).abs().mean()
        self.optimizer.zero_grad()
        loss.backward(retain_graph=True)
        self.optimizer.step()
        self.last = out
        return loss.item()


torch.manual_seed(0)
trainer = Trainer()
for _ in range(3):
    print("RESULT", trainer.round(torch.randn(2, 3)))
"""
    done = run(tmp_path, wrong, "-m", "outplace", "run", "--fix")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "program.py").read_text() == wrong.replace("self.last = out", "self.last = out.detach()")


def test_what_would_then_train_nothing_is_left(tmp_path):
    """A value of the round before that is all that trains its network."""
    use = "if last is not None:\n        loss = scale * (loss.detach() - last).pow(2).mean() + scale"
    begin = "last, scale = None, nn.Parameter(torch.ones(()))\noptimizer.add_param_group({'params': [scale]})"
    wrong = PROGRAM.format(begin=begin, use=use, keep="last = out", backward=RETAINED)
    wrong = wrong.replace("loss = out.pow(2).mean()", "loss = (scale * out.detach()).pow(2).mean()")
    done = run(tmp_path, wrong, "-m", "outplace", "run", "--fix")
    assert done.returncode == 1
    assert (tmp_path / "program.py").read_text() == wrong


LOOP = """
for x in data:
    out = net(x) + {before}
    out.sum().backward()  # backward
    opt.step()  # step
    {after}
"""


@pytest.mark.parametrize(
    ("before", "after", "shape"),
    [
        ("sum(seen)", "print(seen)", "list"),  # what is kept nowhere here
        ("sum(seen)", "seen.append(make(x))", "deque"),  # nobody knows what it makes
        ("last['out']", "last = out", "dict of dict"),
    ],
)
def test_what_is_not_known_is_left(before, after, shape):
    held = {"seen": shape, "last": shape, "out": "tensor"}
    name = before.split("[")[0].replace("sum(", "").rstrip(")")
    assert ways(LOOP.format(before=before, after=after), held={name: held[name]}, loss_is_older=False) == {}


def test_a_state_to_begin_with_is_not_touched():
    source = LOOP.format(before="h", after="if x.end:\n        h = start()").replace("out = ", "h = out = ")
    (text,) = ways(source, held={"h": "tensor"}, loss_is_older=False).values()
    assert "# step\n    h = h.detach()\n    if x.end:\n        h = start()\n" in text


def test_rounds_without_a_step_go_on_with_the_graph():
    source = """
    for number, x in enumerate(data):
        out = net(x, last)
        if number % 4 == 3:
            out.sum().backward()  # backward
            opt.step()  # step
        last = {kept}
    """
    (text,) = ways(source.format(kept="out"), held={"last": "tensor", "out": "tensor"}, loss_is_older=False).values()
    assert "        opt.step()  # step\n        out = out.detach()\n    last = out\n" in text
    assert ways(source.format(kept="out + 1"), held={"last": "tensor", "out": "tensor"}, loss_is_older=False) == {}
