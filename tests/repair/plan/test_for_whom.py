"""Does a function write its argument for itself or for its caller? And writes to parts of several tensors at once."""

from __future__ import annotations

import ast

import pytest
from differences import run, verdict

from conftest import repaired
from outplace.repair.facts.aliases import span_of
from outplace.repair.forms.saver import kept_operands
from outplace.repair.syntax.code import Code

HEAD = """import torch

x = torch.linspace(0.2, 1.3, 4, dtype=torch.float64).requires_grad_()
leaves = [x]


def head(tokens, shift):
    tokens += shift
    return tokens.exp().sum()


"""
TWICE = HEAD + "h = x.sin()\nh2 = h * h\nloss = head(h, 0.5) + head(h, 0.1) + h2.sum()\nloss.backward()\n"
"""Is `head` meant to shift what the second call gets?"""


def test_a_write_for_itself_or_for_the_caller_is_left_and_both_meanings_are_named():
    done = repaired(TWICE)
    assert run(TWICE).error and done.text == TWICE
    (titles,) = done.meanings.values()
    assert titles[0] == "Write `+` out of place" and any("copy" in title or "copies" in title for title in titles[1:])


def test_a_caller_that_does_not_read_it_again_needs_no_choice(fixed):
    source = TWICE.replace(" + head(h, 0.1)", "")
    assert verdict(source, fixed(source)).startswith("mended")


def test_a_function_that_returns_its_argument_writes_it_for_the_caller(fixed):
    source = TWICE.replace("return tokens.exp().sum()", "return tokens").replace("+ head(h, 0.1) + h2", "* h + h2")
    source = source.replace("head(h, 0.5) * h +", "(head(h, 0.5) * h).sum() +")
    assert run(source).error
    assert verdict(source, fixed(source)).startswith("mended")


def test_also_if_it_returns_its_argument_with_something_else(fixed):
    source = TWICE.replace("return tokens.exp().sum()", "return tokens, tokens.exp().sum()")
    source = source.replace("head(h, 0.5) + head(h, 0.1)", "sum(head(h, 0.5)[1:]) + (h * h).sum()")
    assert run(source).error
    assert verdict(source, fixed(source)).startswith("mended")


STATE = """import torch

x = torch.linspace(0.2, 1.3, 4, dtype=torch.float64).requires_grad_()
leaves = [x]


def step(state, item):
    state += item * x
    return (state * state).sum()


state = torch.zeros(4, dtype=torch.float64)
"""


@pytest.mark.parametrize(
    "loop",
    [
        "loss = 0\nfor item in (1.0, 2.0, 3.0):\n    loss = loss + step(state, item)\n",
        "loss = sum([step(state, item) for item in (1.0, 2.0, 3.0)])\n",
        "loss, item = 0, 0.0\nwhile item < 3:\n    item += 1.0\n    loss = loss + step(state, item)\n",
    ],
)
def test_a_state_that_a_loop_hands_to_each_call_keeps_its_writes(fixed, loop):
    source = f"{STATE}{loop}loss.backward()\n"
    assert run(source).error
    assert verdict(source, fixed(source)).startswith("mended")


CELLS = """import torch

x = torch.linspace(0.2, 1.3, 4, dtype=torch.float64).requires_grad_()
leaves = [x]


def cell(given, h, c):
    c = torch.sigmoid(h * given) * c + given
    return torch.tanh(c) * h + given * c, c


class Cells:
    def start(self):
        self.h = torch.ones(2, 4, dtype=torch.float64)
        self.c = torch.ones(2, 4, dtype=torch.float64)

    def step(self, given):
        for i in range(2):
            WRITE
            given = self.h[i]
        return given


cells = Cells()
cells.start()
loss = sum(cells.step(item * x).sum() for item in (1.0, 2.0, 3.0))
loss.backward()
"""


@pytest.mark.parametrize(
    "write",
    [
        "self.h[i], self.c[i] = cell(given, self.h[i], self.c[i])",
        "(self.h[i], self.c[i]) = new = cell(given, self.h[i], self.c[i])",
        "[self.c[i], self.h[i]] = cell(given, self.h[i], self.c[i])[::-1]",
    ],
)
def test_parts_of_several_tensors_in_one_assignment(fixed, write):
    source = CELLS.replace("WRITE", write)
    assert run(source).error
    assert verdict(source, fixed(source)).startswith("mended")


def test_the_same_without_a_backward_through_the_old_parts_is_left_alone(fixed):
    source = CELLS.replace("WRITE", "self.h[i], self.c[i] = given + self.h[i], given + self.c[i]")
    assert not run(source).error and fixed(source) == source


PARTS = """import torch

x = torch.linspace(0.2, 1.3, 6, dtype=torch.float64).requires_grad_()
leaves = [x]
logits, mean, scale = x.sin().chunk(3)
scale.clamp_(-5, 3).exp_()
logits -= logits.logsumexp(-1, keepdim=True)
loss = (logits * mean / scale).sum()
loss.backward()
"""


def test_what_is_refused_first_is_repaired_so_that_the_rest_can_be(fixed):
    """A range for `scale` would repair the first line, and nothing would repair the second."""
    assert verdict(PARTS, fixed(PARTS)).startswith("mended")


def test_parts_whose_whole_is_read_later_keep_their_writes(fixed):
    source = PARTS.replace(
        "logits, mean, scale = x.sin().chunk(3)", "whole = x.sin()\nlogits, mean, scale = whole.chunk(3)"
    )
    source = source.replace("loss = (", "loss = whole.sum() + (").replace(
        "logits -= logits.logsumexp(-1, keepdim=True)\n", ""
    )
    assert verdict(source, fixed(source)).startswith("mended")


@pytest.mark.parametrize("mark", ["*=", "/=", "-="])
@pytest.mark.parametrize("read", ["x[:, 2:3]", "x[:, 2:3] * x[:, :1]", "x[:, 3:].sigmoid()"])
def test_a_part_that_is_updated_by_another_part(fixed, mark, read):
    """Only what is read gets a copy. A copy of what is written would lose the write."""
    source = f"""import torch

w = torch.linspace(0.2, 1.3, 12, dtype=torch.float64).view(3, 4).requires_grad_()
leaves = [w]
rows = [w.sin(), w.cos()]
loss = 0
for i in range(2):
    x = rows[i]
    x = x[x[:, 1] > 0.1]
    x[:, 3:] {mark} {read}
    loss = loss + (x * x).sum()
loss.backward()
"""
    assert verdict(source, fixed(source)) in ("mended", "legal")


def test_the_same_fails_as_it_was_written(fixed):
    """The product keeps the part that is read, in the memory that is written."""
    source = """import torch

w = torch.linspace(0.2, 1.3, 12, dtype=torch.float64).view(3, 4).requires_grad_()
leaves = [w]
x = w.sin()[:2]
x[:, 3:] *= x[:, 2:3]
loss = (x + 1).sum()
loss.backward()
"""
    assert run(source).error and verdict(source, fixed(source)) == "mended"


BLOCK = """import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(3, 3).double(), torch.nn.Linear(3, 3).double()

    def forward(self, x):
        skip = x
        out = self.a({saved})
        {write}
        return self.b(out) * out + skip


torch.manual_seed(0)
block = Block()
w = torch.linspace(0.2, 1.3, 12, dtype=torch.float64).view(4, 3).requires_grad_()
leaves = [w]
h = w.{made}()
loss = (block(h) * {read}).sum()
loss.backward()
"""


@pytest.mark.parametrize("write", ["x[:, 0] += 1", "x *= 0.5", "x[:, 1] = 0"])
@pytest.mark.parametrize("made", ["sin", "sigmoid"])
@pytest.mark.parametrize("saved", ["x", "x * 2"])
def test_a_skip_that_needs_the_write_of_an_argument(fixed, write, made, saved):
    """A copy at the write would not reach `skip`. What computed the argument may keep it, and the layer may, too."""
    source = BLOCK.format(write=write, made=made, saved=saved, read="2")
    assert verdict(source, fixed(source, unsafe=True)) in ("mended", "legal")


@pytest.mark.parametrize("made", ["sin", "sigmoid"])
def test_the_same_where_the_caller_needs_the_write(fixed, made):
    source = BLOCK.format(write="x[:, 0] += 1", made=made, saved="x", read="h")
    assert verdict(source, fixed(source, unsafe=True)) in ("mended", "left")


def test_a_dict_of_tensors_is_not_copied_like_a_tensor(fixed):
    source = """import torch
from torch import nn


def first(x: dict[str, torch.Tensor]) -> torch.Tensor:
    return next(iter(x.values()))


class Neck(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: dict[str, torch.Tensor]) -> torch.Tensor:
        feature = first(x)
        feature[..., 0] = 0
        return self.fc(feature)
"""
    assert "x.clone()" not in fixed(source, unsafe=True)


@pytest.mark.parametrize(
    ("source", "copied"),
    [
        ("y = x if c else f(x)", [18]),
        ("y, z = x, f(x)", [12]),
        ("y = f(x if c else z)", [6]),
        ("y *= x", [5]),
    ],
)
def test_what_only_gets_another_name_is_not_copied(source, copied):
    """`y` may need a write to `x` that follows: a copy would hide it."""
    code = Code("a.py", source + "\n")
    trail = {
        span_of(code, node)
        for node in ast.walk(code.tree)
        if isinstance(node, ast.IfExp) or (isinstance(node, ast.Name) and node.id == "x")
    }
    kept = kept_operands(code, code.tree.body[0], trail)
    assert [node.col_offset for node in kept] == copied
