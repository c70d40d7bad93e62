"""Writes to leaves: a new tensor or an update, and neither where somebody would see another value, or gradient."""

from __future__ import annotations

import pytest
from differences import verdict

from outplace.repair.facts.aliases import may_rebind
from outplace.repair.syntax.files import Files

BEGINNING = """import torch

x = torch.linspace(0.213, 1.371, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
w = torch.linspace(1.117, 0.429, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
leaves = [x, w]


def scale(t):
    t *= 2
    return t


def shift(t, s):
    t.add_(s)


def first(t):
    return t[0]


def rectified(t):
    t = torch.nn.functional.relu(t, inplace=True)
    return t * x


"""
END = "loss.backward()\n"

SEEN_BY_OTHERS = {
    "by its caller, which uses no result": "scale(w)\nloss = (w * w).sum()\n",
    "by its caller, beside the result": "h = scale(w)\nloss = (w * h).sum()\n",
    "by another name of its caller's": "h = w\ng = scale(w)\nloss = (h * g).sum()\n",
    "by its caller, which calls it for that": "rectified(w)\nloss = (w * w).sum()\n",
    "by a list of its caller's": "kept = [x]\nkept.append(w)\nw = scale(w)\nloss = (w * kept[1]).sum()\n",
    "by a list": "kept = []\nkept.append(w)\nw.zero_()\nloss = (w + kept[0] * x).sum()\n",
    "by what it is a view of": "h = w[:]\nh.tanh_()\nloss = (h * w).sum()\n",
    "by what it is another name of": "h = w\nh.T[1] = 0.3\nloss = (h * w).sum()\n",
}
OF_TWO_TIMES = {
    "by a function": "h = x * w\nshift(w, 1.0)\nloss = h.sum() + (w * w).sum()\n",
    "a row": "h = x * w\nfirst(w).mul_(2)\nloss = h.sum() + (w * w).sum()\n",
    "by a view": "h = x * w\ng = w.reshape(-1)\ng.fill_(0.4)\nloss = h.sum() + (w * w).sum()\n",
}


@pytest.mark.parametrize(
    "body",
    [
        *(pytest.param(body, id=f"seen {name}") for name, body in SEEN_BY_OTHERS.items()),
        *(pytest.param(body, id=f"of two times, {name}") for name, body in OF_TWO_TIMES.items()),
    ],
)
def test_a_leaf_is_left_where_anything_would_change_what_is_computed(fixed, body):
    source = BEGINNING + body + END
    assert verdict(source, fixed(source)) == "left"


def test_an_update_behind_a_backward(fixed):
    source = BEGINNING + "(x * w).sum().backward()\nfirst(w).mul_(2)\nloss = (w * w).sum()\n" + END
    assert "with torch.no_grad():\n    first(w).mul_(2)" in fixed(source)


ROUNDS = """
target = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)
for _ in range(3):
    loss = ((w * 2 - target) ** 2).sum()
    w.grad = None
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
    target.copy_(w)
"""


def test_a_copy_at_the_end_of_a_round_is_an_update(fixed):
    source = BEGINNING + ROUNDS
    assert fixed(source) == source.replace("    target.copy_(w)\n", "        target.copy_(w)\n")  # in the block above


@pytest.mark.parametrize("name", ["update", "load_into", "mix"])
def test_a_function_that_is_called_an_update_is_one(fixed, name):
    source = BEGINNING + f"def {name}(t, s):\n    t.copy_(s)\n\n\n{name}(w, x)\nloss = (w * x).sum()\n" + END
    assert ("torch.no_grad()" in fixed(source)) is (name != "mix")


MENDED = {
    "its caller goes on with the result": "h = scale(x * w)\nw = scale(w)\nloss = (w * h).sum()\n",
    "what is added depends on a leaf": "w = w * 1\nshift(w, x)\nw -= 0.5\nloss = (w * w).sum()\n",
    "a later write is to no leaf": """def f(x, w):
    w -= 0.5
    shift(w[1:], x[1:])
    return (w * w).sum()
loss = f(x, w)
""",
    "a flag that saves memory": "h = rectified(w)\nloss = h.sum() + (w * w).sum()\n",
    "the other part is read": "h = w[:2]\nh *= x[1:]\nw = torch.cat([h, w[2:]])\nloss = (w * w).sum()\n",
}


@pytest.mark.parametrize("body", MENDED.values(), ids=MENDED)
def test_a_step_of_the_computation(fixed, body):
    source = BEGINNING + body + END
    assert verdict(source, fixed(source)) in ("mended", "legal")


MODULE = """import torch
from torch import nn

torch.manual_seed(0)


class Start(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = nn.Parameter(torch.randn(1, 4, dtype=torch.float64))
        self.fc = nn.Linear(3, 4).double()

    def forward(self, x):
        state = self.start.{view}
        state += self.fc(x)
        return state * state


model = Start()
leaves = list(model.parameters())
loss = model(torch.randn({rows}, 3, dtype=torch.float64)).sum()
"""
AFTER = {
    "their gradients": "print(sum(p.grad.sum() for p in model.parameters()))\n",
    "their values": "print(sum(p.sum() for p in model.parameters()))\n",
    "what clips their gradients": "nn.utils.clip_grad_norm_(model.parameters(), 100.0)\n",
    "nothing": "",
}


@pytest.mark.parametrize(("view", "rows"), [("expand(2, 4)", 2), ("view(1, 4)", 1)])
@pytest.mark.parametrize("after", AFTER.values(), ids=AFTER)
def test_a_module_computes_with_its_parameter_whatever_reads_all_parameters_later(fixed, view, rows, after):
    source = MODULE.format(view=view, rows=rows) + END + after
    text = fixed(source)
    assert "state = state + self.fc(x)" in text
    legal = source.replace(f"self.start.{view}", f"self.start.{view}.clone()")
    got, wanted = (_gradients(program) for program in (text, legal))
    assert all(one.equal(other) for one, other in zip(got, wanted, strict=True))


def _gradients(source):
    names = {}
    exec(compile(source, "program.py", "exec"), names)
    return [leaf.grad for leaf in names["leaves"]]


def test_an_update_of_the_parameter_stays_one(fixed):
    source = MODULE.format(view="view(1, 4)", rows=1) + END + AFTER["their values"]
    source = source.replace("state += self.fc(x)\n        return state * state", "state *= 0.5")
    source = source.replace(
        "loss = model(torch.randn(1, 3, dtype=torch.float64)).sum()", "model(1)\nloss = (model.start * 2).sum()"
    )
    assert "state = state" not in fixed(source)


def test_what_is_trained_is_not_recorded_as_computed(fixed):
    source = BEGINNING + "h = x * w\nw.data.mul_(1.5)\nloss = (w * w).sum() + h.sum()\n" + END
    text = fixed(source)
    assert "w.data.mul_(1.5)" in text
    assert verdict(source, text) == "mended"


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        (":2", "2:", True),
        (":2", "1:", False),
        ("0", "1", True),
        ("0", "0", False),
        ("3", "1:3", True),
        ("0", "-1", False),
        (":", "1", False),
        ("'a'", "'b'", True),
        ("'a'", "'a'", False),
        (":n", "n:", False),
        ("0:2:1", "2", True),
    ],
)
def test_parts_that_lie_apart(one, other, apart):
    x = "{'a': torch.rand(8), 'b': torch.rand(8)}" if "'" in one else "torch.rand(8, 2)"
    source = f"import torch\nn, x = int(input()), {x}\np, q = x[{one}], x[{other}]\np += 1\nprint(p, q)\n"
    files = Files({"a.py": source}, may_read=False)
    code = files.code("a.py")
    assert may_rebind(files, code, code.tree.body[3], "p") == ("yes" if apart else "no")
