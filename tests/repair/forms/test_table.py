"""Tables that a loop reads back, as lists: the same entries in the same order, and the gradient of the original."""

from __future__ import annotations

import ast
import random

import pytest
from differences import Forward, close, run
from hypothesis import given, settings
from hypothesis import strategies as st

from outplace.repair.forms.table import Stacked, as_lists
from outplace.repair.syntax.edits import apply
from outplace.repair.syntax.files import Files

HEAD = """import torch

x = torch.linspace(0.213, 1.371, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
w = torch.linspace(1.117, 0.429, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
leaves = [x, w]
T = 4
f64 = torch.float64
"""
TAIL = "loss = (out * out.sin()).sum()\nloss.backward()\n"


def program(body: str, tail: str = TAIL) -> str:
    return HEAD + body.rstrip("\n") + "\n" + tail


def lists(source: str) -> Stacked | None:
    """The statements in loops that assign to an item of `out`, `c`, as lists."""
    files = Files({"a.py": source}, may_read=False)
    code = files.code("a.py")
    writes = [
        node
        for node in ast.walk(code.tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript) and code.loops(node)
    ]
    return as_lists(files, code, writes)


FILLED = """\
out = torch.zeros(3, T, dtype=f64)
for t in range(1, T):
    out[:, t] = torch.tanh(out[:, t - 1]) * w[:, t] + x[:, t]
# becomes
out = [torch.zeros(3, dtype=f64)]
for t in range(1, T):
    out.append(torch.tanh(out[t - 1]) * w[:, t] + x[:, t])
out = torch.stack(out, dim=1)
# next
out = torch.zeros(3, T, dtype=f64)
out[:, 0] = x[:, 0]
for t in range(1, T):
    out[:, t] = out[:, t - 1].exp() * w[:, t]
# becomes
out = [x[:, 0]]
for t in range(1, T):
    out.append(out[t - 1].exp() * w[:, t])
out = torch.stack(out, dim=1)
# next
out = torch.empty(T, T, dtype=f64)
out[0] = x[0]
for t in range(T - 1):
    out[t + 1] = (
        torch.sin(out[t])  # why
        * w[t]
    )
# becomes
out = [x[0]]
for t in range(T - 1):
    out.append((
        torch.sin(out[t])  # why
        * w[t]
    ))
out = torch.stack(out)
# next
out = torch.zeros((len(x) + 1, 4), dtype=f64)
for i, row in enumerate(x):
    out[i + 1, :] = out[i, :] * w[i] + row
# becomes
out = [torch.zeros((4,), dtype=f64)]
for i, row in enumerate(x):
    out.append(out[i] * w[i] + row)
out = torch.stack(out)
# next
out = torch.zeros_like(x)
for t in range(1, x.shape[-1]):
    out[..., t] = out[..., t - 1] * w[:, t] + x[:, t]
# becomes
out = [torch.zeros_like(x[..., 0])]
for t in range(1, x.shape[-1]):
    out.append(out[t - 1] * w[:, t] + x[:, t])
out = torch.stack(out, dim=-1)
# next
out = x.new_zeros(T, 4)
for t in range(1, out.size(0)):
    out[t] = out[t - 1] * w[t - 1] + x[t - 1]
# becomes
out = [x.new_zeros(4)]
for t in range(1, T):
    out.append(out[t - 1] * w[t - 1] + x[t - 1])
out = torch.stack(out)
# next
out = torch.zeros(T, 4, dtype=f64)  # states
out[0] = x[0]
out[1] = x[1] * 2
for t in range(2, T):
    out[t] = out[t - 1] * out[t - 2] + w[t - 2]
# becomes
out = []  # states
out.append(x[0])
out.append(x[1] * 2)
for t in range(2, T):
    out.append(out[t - 1] * out[t - 2] + w[t - 2])
out = torch.stack(out)
# next
out = torch.zeros(T, 4, dtype=f64)
for t in range(2, T):
    out[t] = out[t - 1] * out[t - 2] + w[t - 2]
# becomes
out = [torch.zeros(4, dtype=f64) for _ in range(2)]
for t in range(2, T):
    out.append(out[t - 1] * out[t - 2] + w[t - 2])
out = torch.stack(out)
# next
out = torch.zeros(3, T, dtype=f64)
for t in range(T):
    if t == 0:
        out[:, t] = x[:, 0] * 1
    else:
        out[:, t] = out[:, t - 1] * w[:, t]
# becomes
out = []
for t in range(T):
    if t == 0:
        out.append(x[:, 0] * 1)
    else:
        out.append(out[t - 1] * w[:, t])
out = torch.stack(out, dim=1)
# next
out = torch.zeros(3, T, dtype=f64)
for t in range(T):
    last = out[:, t - 1] if t > 0 else x[:, 0]
    out[:, t] = last * w[:, t]
# becomes
out = []
for t in range(T):
    last = out[t - 1] if t > 0 else x[:, 0]
    out.append(last * w[:, t])
out = torch.stack(out, dim=1)
# next
out = torch.zeros(T, 3, 4, dtype=f64)
out[0] = x
for t in range(1, T):
    out[t] = torch.roll(out[t - 1, :, 1:], 1).sum() * w + out[t - 1]
# becomes
out = [x]
for t in range(1, T):
    out.append(torch.roll(out[t - 1][:, 1:], 1).sum() * w + out[t - 1])
out = torch.stack(out)
# next
out = torch.zeros(T, dtype=f64)
out[0] = x.sum()
for t in range(1, T):
    out[t] = torch.sin(out[t - 1]) * w[0, t]
# becomes
out = [x.sum()]
for t in range(1, T):
    out.append(torch.sin(out[t - 1]) * w[0, t])
out = torch.stack(out)
# next
out = torch.zeros(3, T, 2, dtype=f64)
c = torch.zeros(3, T, 2, dtype=f64)
for t in range(1, T):
    out[:, t] = torch.sigmoid(c[:, t - 1]) * w[:, :2]
    c[:, t] = c[:, t - 1] * out[:, t] + x[:, 2:]
out = out + c
# becomes
out = [torch.zeros(3, 2, dtype=f64)]
c = [torch.zeros(3, 2, dtype=f64)]
for t in range(1, T):
    out.append(torch.sigmoid(c[t - 1]) * w[:, :2])
    c.append(c[t - 1] * out[t] + x[:, 2:])
c = torch.stack(c, dim=1)
out = torch.stack(out, dim=1)
out = out + c
# next
out = torch.zeros(T, 4, dtype=f64)
out[0] = 2
for t in range(1, T):
    out[t] = torch.sin(out[t - 1]) * w[t - 1]
# becomes
out = [torch.full((4,), 2, dtype=f64)]
for t in range(1, T):
    out.append(torch.sin(out[t - 1]) * w[t - 1])
out = torch.stack(out)
# next
out = x.new_zeros(T)
out[0] = -1
for t in range(1, T):
    out[t] = torch.sin(out[t - 1]) * w[0, t]
# becomes
out = [x.new_full((), -1.0)]
for t in range(1, T):
    out.append(torch.sin(out[t - 1]) * w[0, t])
out = torch.stack(out)
# next
out = torch.full((T, 4), 0.3, dtype=f64)
for t in range(1, T):
    out[t] = torch.sin(out[t - 1]) * w[t - 1]
# becomes
out = [torch.full((4,), 0.3, dtype=f64)]
for t in range(1, T):
    out.append(torch.sin(out[t - 1]) * w[t - 1])
out = torch.stack(out)
# next
total = 0
c = torch.zeros(T, 4, dtype=f64)
for t in range(1, T):
    c[t] = torch.sin(c[t - 1]) + x[t - 1] * w[0]
    total = total + c[t] ** 2
out = total
# becomes
total = 0
c = [torch.zeros(4, dtype=f64)]
for t in range(1, T):
    c.append(torch.sin(c[t - 1]) + x[t - 1] * w[0])
    total = total + c[t] ** 2
out = total
"""


@pytest.mark.parametrize(("before", "after"), [case.split("# becomes\n") for case in FILLED.split("# next\n")])
def test_a_filled_table_is_a_list(before, after):
    source = program(before)
    found = lists(source)
    assert found is not None
    text = apply(source, found.edits)
    assert text == program(after)
    forward, result = Forward(source), run(text)
    assert result.loss == pytest.approx(forward.value(), rel=1e-12)
    assert close(result.gradients, forward.gradients(), 1.0), "by numerical differentiation of the original forward"
    assert run(apply(source, found.checking)).loss == result.loss


LOOP = "for t in range(1, T):\n    out[t] = torch.sin(out[t - 1]) * w[t - 1]"
TABLE = "out = torch.zeros(T, 4, dtype=f64)\nout[0] = x[0]\n"
OTHER_ENTRIES = [
    "out[0] = x[0, 0]",  # broadcast
    "out[0] = x[0].float()",  # cast
    "out[0] = x[:1]",  # a dimension that an assignment drops
]


@pytest.mark.parametrize("first", OTHER_ENTRIES)
def test_entries_that_an_assignment_would_have_changed_are_noticed(first):
    source = program(f"out = torch.zeros(T, 4, dtype=f64)\n{first}\n{LOOP}")
    found = lists(source)
    assert found is not None
    with pytest.raises(AssertionError):
        run(apply(source, found.checking))


LEFT = {
    "entries behind the loop's end": TABLE.replace("(T,", "(T + 1,") + LOOP,
    "reads from the table's end": "out = torch.zeros(T, 4)\n" + LOOP.replace("1, T", "T"),
    "an entry that is never written and has no value": TABLE.replace("zeros", "empty").replace("out[0] = x[0]\n", "")
    + LOOP,
    "a counter that is counted on": TABLE + LOOP + "\n    t = t + 1",
    "written only sometimes": TABLE + "for t in range(1, T):\n    if t > 2:\n        out[t] = out[t - 1] * w[0]",
    "a round that may end early": TABLE + LOOP.replace("    out", "    if x.sum() > 9:\n        continue\n    out"),
    "a loop that may end early": TABLE + LOOP + "\n    if x.sum() > 9:\n        break",
    "a second write": TABLE + LOOP + "\n    out[t] = out[t] * 2",
    "an update": TABLE + LOOP + "\n    out[t] += 1",
    "the whole table in the loop": TABLE + LOOP + "\n    print(out.sum())",
    "earlier entries together": TABLE + LOOP.replace("out[t - 1]", "out[:t].sum(0)"),
    "an entry that is to come": TABLE + LOOP.replace("out[t - 1]", "out[t]"),
    "another stride": TABLE + LOOP.replace("1, T", "1, T, 2"),
    "backwards": TABLE + LOOP.replace("range(1, T)", "reversed(range(1, T))"),
    "only a part of an entry": TABLE + "for t in range(1, T):\n    out[t, :2] = out[t - 1, :2] * 2",
    "given by a caller": "def f(out):\n    " + LOOP.replace("\n", "\n    "),
    "another name for it": TABLE + "same = out\n" + LOOP,
    "a function that sees it": TABLE + "def look():\n    return out.sum()\n" + LOOP,
    "a leaf": "out = torch.zeros(T, 4, requires_grad=True)\n" + LOOP,
    "sizes that change": TABLE + LOOP.replace("w[t - 1]", "w[(T := 4) - 2]"),
    "an entry that is written later": TABLE.replace("x[0]", "first") + LOOP + "\n    first += 1",
    "a loop with an else": TABLE + LOOP + "\nelse:\n    pass",
    "another table of the same name": "out = w\n" + LOOP,
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_no_list_is_left(name):
    assert lists(program(LEFT[name])) is None


def test_other_code_of_the_same_shape_would_be_a_list():
    assert lists(program(TABLE + LOOP)) is not None


ROWS = [("", "x[0, 0]", "w[0, 1]"), ("4", "x[0]", "w[1]"), ("3, 4", "x", "w")]
"""The sizes of an entry, and two tensors of that shape."""


def random_table(seed: int) -> str:
    """A loop over a table that may be a list, and often is none: it ends too early, reads what is not there yet ..."""
    choose = random.Random(seed)
    sizes, one, other = choose.choice(ROWS)
    dim = choose.randint(0, sizes.count(",") + bool(sizes))
    size, stop = (f"T{choose.choice(['', '', ' + 1', ' - 1', ' + 2'])}" for _ in range(2))
    whole = [part for part in sizes.split(", ") if part]
    whole.insert(dim, size)
    start, ahead, back = choose.randint(0, 2), choose.randint(0, 2), choose.randint(1, 2)

    def item(place: str) -> str:
        after = [":"] * choose.randint(0, len(whole) - dim - 1)
        return f"out[{', '.join([*[':'] * dim, place, *after])}]"

    def at(offset: int) -> str:
        return item("t" if not offset else f"t {'+' if offset > 0 else '-'} {abs(offset)}")

    before = [f"{item(str(i))} = {choose.choice([one, f'{other} * 2', '0.5'])}" for i in range(choose.randint(0, 2))]
    read = at(ahead - back)
    if choose.random() < 0.3:
        read = f"({read} if t > {choose.randint(0, 2)} else {one})"
    maker = choose.choice(["zeros", "ones", "empty"] if before else ["zeros", "ones"])
    lines = [f"out = torch.{maker}({', '.join(whole)}, dtype=f64)", *before, f"for t in range({start}, {stop}):"]
    lines.append(f"    {at(ahead)} = torch.sin({read}) * {other} + {one}")
    if choose.random() < 0.3:
        lines.append(f"    x = x + {at(choose.choice([ahead, ahead - 1]))}.sum()")
    return program("\n".join(lines))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1_000_000_000))
def test_any_table(seed):
    source = random_table(seed)
    found = lists(source)
    if found is None:
        return
    forward = Forward(source)
    try:
        value = forward.value()
    except IndexError:  # it reads or writes outside of the table
        return
    result = run(apply(source, found.edits))
    assert result.loss == pytest.approx(value, rel=1e-12)
    assert close(result.gradients, forward.gradients(), value)


def test_enough_random_tables_are_lists():
    assert sum(lists(random_table(seed)) is not None for seed in range(300)) > 20
