"""Blocks that are computed twice: the same bits and buffers as a plain call, less memory, where nobody notices.

The plain call is the independent truth for the helper; for the advice it is a second recording of the changed program.
"""

from __future__ import annotations

import copy
import textwrap
from pathlib import Path

import pytest
import torch
from tests.reclaim.recorded import advised, changed, computed, record
from torch import nn

import outplace
from outplace.reclaim.observe.timeline import Account

MODELS = Path(__file__).parents[3] / "benchmarks" / "models" / "out_of_place"


class PowerIteration(nn.Module):
    """Its result depends on a buffer that each forward changes."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))
        self.register_buffer("direction", torch.randn(8))

    def forward(self, x):
        with torch.no_grad():
            self.direction.copy_(nn.functional.normalize(self.weight @ self.direction, dim=0))
        norm = self.direction @ self.weight @ self.direction
        return torch.sin(x @ (self.weight / norm))


def trained(block, call):
    """Losses, gradients and buffers of three steps."""
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(block.parameters(), lr=0.1)
    seen = []
    for _ in range(3):
        x = torch.randn(4, 8, requires_grad=True)
        loss = call(block, x).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += [loss.detach(), x.grad, *(p.grad for p in block.parameters()), *(b.clone() for b in block.buffers())]
    return seen


@pytest.mark.parametrize(
    "block",
    [
        nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.BatchNorm1d(8, momentum=None)),
        nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 8)),
        PowerIteration(),
    ],
    ids=["batch norm", "dropout", "a buffer that matters"],
)
def test_it_computes_what_a_plain_call_does(block):
    torch.manual_seed(0)
    plain = trained(copy.deepcopy(block), lambda block, x: block(x))
    twice = trained(copy.deepcopy(block), outplace.recompute)
    assert len(plain) == len(twice)
    assert all(torch.equal(one, two) for one, two in zip(plain, twice, strict=True))


def test_a_graph_that_is_gone_through_twice():
    block = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Sigmoid())
    x = torch.randn(3, 4, requires_grad=True)
    out = outplace.recompute(block, x).sum()
    first = torch.autograd.grad(out, x, retain_graph=True)[0]
    counted = block[1].num_batches_tracked.item()
    assert torch.equal(first, torch.autograd.grad(out, x)[0])
    assert block[1].num_batches_tracked.item() == counted == 1


def test_a_module_that_has_changed_its_mode_meanwhile():
    block = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Sigmoid(), nn.Dropout(0.5), nn.Linear(4, 4))
    x = torch.randn(8, 4)

    def gradient(call):
        torch.manual_seed(0)
        block.zero_grad()
        loss = call(block.train(), x).square().sum()
        block.eval()
        loss.backward()
        assert not any(one.training for one in block.modules())
        return block[0].weight.grad.clone()

    assert torch.equal(gradient(lambda block, x: block(x)), gradient(outplace.recompute))


def test_without_gradients_it_is_a_plain_call():
    block = nn.Linear(4, 4)
    with torch.no_grad():
        assert outplace.recompute(block, torch.ones(2, 4)).grad_fn is None


def test_it_wants_a_module():
    with pytest.raises(TypeError, match="takes a module and its arguments, not builtin_function_or_method"):
        outplace.recompute(torch.sin, torch.ones(2))


@pytest.mark.parametrize(
    ("name", "options", "known"),
    [
        (
            "resnet.py",
            ["--width", "8", "--batch", "16", "--side", "16", "--activation", "relu"],
            {"outplace.recompute(layer, x)"},
        ),
        (
            "unet.py",
            ["--width", "4", "--batch", "2", "--side", "32", "--activation", "relu"],
            {"outplace.recompute(block, x)", "outplace.recompute(merge, x)"},
        ),
        (
            "gpt.py",
            ["--words", "200", "--length", "32", "--batch", "4"],
            {"outplace.recompute(self.mlp, self.norm2(x))"},
        ),
    ],
)
def test_models_get_by_with_less(name, options, known):
    torch.set_num_threads(1)
    path, arguments = MODELS / name, [*options, "--steps", "2"]
    assert not any(one.kind == "recompute" for one in advised(path, arguments)[0].paying)
    advice, files = advised(path, arguments, recompute=True)
    blocks = [one for one in advice.paying if one.kind == "recompute"]
    assert known <= {one.after for one in blocks}
    truth = computed(path, path.read_text(), arguments)
    for changes in (*([one] for one in blocks), advice.paying):
        assert computed(path, changed(files, path, changes), arguments) == truth
    before = Account(record(path, arguments))
    after = Account(record(path, arguments, changed(files, path, advice.paying)))
    saved = 1 - (after.curve().peak - after.standing()) / (before.curve().peak - before.standing())
    assert saved > 0.15
    assert abs(after.curve().peak - advice.expected().peak) < 0.05 * before.curve().peak


PROGRAM = """
import random
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(32, 512), nn.Linear(512, 32)
        self.seen = []
        self.count = 0
    def helper(self, x):
        {helper}
        return x
    def forward(self, x):
        {body}
        return self.down(torch.sin(self.up(self.helper(x))))

blocks = [Block() for _ in range(4)]
{setup}
for step in range(2):
    x = torch.randn(64, 32)
    for block in blocks:
        y = block(x)
        {between}
        x = torch.sin(y)
    x.square().mean().backward()
"""


def program(tmp_path, **parts):
    path = tmp_path / "program.py"
    named = {"helper": "pass", "body": "pass", "setup": "pass", "between": "pass", **parts}
    path.write_text(textwrap.dedent(PROGRAM).format(**named))
    return path


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"body": "terms = []; terms.append(x); x = torch.cat(terms)"},
        {"body": "y = x.clone(); y[:, 0] = 0; x = y"},
        {"helper": "x = x + torch.rand(1)"},
        {"body": "x = x + 1"},
        {"body": "x = torch.arange(32) + x"},
    ],
)
def test_a_block_that_only_computes_may_do_so_twice(tmp_path, parts):
    advice, _ = advised(program(tmp_path, **parts), recompute=True)
    assert "outplace.recompute(block, x)" in {one.after for one in advice.paying}


@pytest.mark.parametrize(
    "parts",
    [
        {"body": "self.count += 1"},
        {"body": "self.last = x"},
        {"body": "self.seen.append(x.detach())"},
        {"body": "print(x.shape)"},
        {"body": "x = x * random.random()"},
        {"body": "global step"},
        {"helper": "self.count += 1"},
        {"setup": "blocks[0].register_forward_hook(lambda *_: None)"},
        {"body": "x = x + 1", "between": "x.add_(1)"},
        {"setup": "outplace = None"},
    ],
)
def test_one_that_does_more_is_left_alone(tmp_path, parts):
    advice, _ = advised(program(tmp_path, **parts), recompute=True)
    assert "outplace.recompute(block, x)" not in {one.after for one in (*advice.paying, *advice.blocks)}


@pytest.mark.parametrize("depth", [15, 30])
def test_one_that_does_more_below_many_functions(tmp_path, depth):
    path = program(tmp_path, body="self.count += 1")
    classes, loop = path.read_text().split("for step in range(2):\n")
    calls = f"def call(depth):\n    return call(depth - 1) if depth else train()\n\ncall({depth})\n"
    path.write_text(f"{classes}def train():\n  for step in range(2):\n{textwrap.indent(loop, '  ')}\n{calls}")
    advice, _ = advised(path, recompute=True)
    assert "outplace.recompute(block, x)" not in {one.after for one in (*advice.paying, *advice.blocks)}
