"""May a name be bound anew? Not where somebody else is to see the write."""

from __future__ import annotations

import ast
import textwrap

import pytest

from outplace.repair.facts.aliases import may_rebind
from outplace.repair.syntax.code import Code
from outplace.repair.syntax.files import Files
from outplace.repair.syntax.flow import read_later

PRELUDE = """
import torch
import torch.nn.functional as F
from torch import nn

a, b = torch.rand(2, 3), torch.rand(2, 3)


class Holder:
    def __init__(self):
        self.h = a * 3


"""


FUNCTION = "def f(x):\n    x += 1  # here\n    return x"
MODULE = "class M(nn.Module):\n    def forward(self, y):"


def marked(source: str) -> tuple[Files, Code, ast.stmt]:
    """The statement with `# here` behind it."""
    source = PRELUDE + textwrap.dedent(source)
    line = next(number for number, text in enumerate(source.splitlines(), 1) if "# here" in text)
    files = Files({"a.py": source}, may_read=False)
    code = files.code("a.py")
    statements = [node for node in ast.walk(code.tree) if isinstance(node, ast.stmt) and node.lineno == line]
    return files, code, statements[-1]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a * b\nx += 1  # here\nprint(x)", "yes"),
        ("x = nn.Linear(3, 3)(a)\nx += 1  # here\nprint(x)", "yes"),
        ("x = torch.cat([a, b])\ny = torch.exp(x)\nx += 1  # here\nprint(x, y)", "yes"),
        ("x = a * b\ny = x\nx += 1  # here\nprint(x, y)", "no"),
        ("x = a * b\ny = x\nx += 1  # here\nprint(x)", "yes"),
        ("x = a * b\ny = x.view(-1)\nx += 1  # here\nprint(x, y)", "no"),
        ("x = a * b\ny = x[0]\nx += 1  # here\nprint(y)", "no"),
        ("x = a * b\nouts.append(x)\nx += 1  # here", "no"),
        ("x = a * b\nself.h = x\nx += 1  # here", "no"),
        ("x = a * b\nd = {}\nd['k'] = x\nx += 1  # here", "no"),
        ("x = a * b\ntable[:, 0] = x\nx += 1  # here\nprint(x)", "yes"),
        ("o = Holder()\nx = o.h\nx += 1  # here\nprint(x)", "no"),
        ("o = Holder()\nx = o.h.view(-1)\nx += 1  # here\nprint(x)", "no"),
        ("xs = [a * b]\nx = xs[0]\nx += 1  # here\nprint(xs)", "no"),
        ("b = a * 2\nx = b.T\nx += 1  # here\nprint(b)", "no"),
        ("b = a * 2\nx = b.T\nx += 1  # here\nprint(x)", "yes"),
        ("x, *y = a.chunk(3)\nx += 1  # here\nprint(x, y)", "yes"),
        ("x, *y = a.chunk(3)\nx += 1  # here\nprint(x, a)", "no"),
        ("for p in nn.Linear(3, 3).parameters():\n    p += 1  # here", "no"),
        ("xs = [a, b]\nfor p in xs:\n    p *= 2  # here\n    print(p)\nprint(xs[0])", "no"),
        ("d = {'k': a * 2}\nx = d.get('k')\nx += 1  # here\nprint(d['k'])", "no"),
        ("def f(x):\n    x += 1  # here\n    return x", "unknown"),
        ("def f(x):\n    x += 1  # here\n    return x\ny = f(a * 2)", "yes"),
        ("def f(x):\n    x += 1  # here\n    return x\na = b * 2\ny = f(a)\nprint(y)", "yes"),
        ("def f(x):\n    x += 1  # here\n    return x\na = b * 2\ny = f(a)\nprint(a)", "no"),
        ("def f(x):\n    x += 1  # here\na = b * 2\nf(a)\nprint(a)", "no"),
        ("def f(x):\n    x += 1  # here\n    return x\na = b * 2\na = f(a)\nprint(a)", "yes"),
        (f"{FUNCTION}\nclass A(Holder):\n    def g(self):\n        y = f(self.h)", "no"),
        (
            f"{FUNCTION}\nclass A(Holder):\n    def g(self):\n        self.h = f(self.h)",
            "yes",
        ),
        ("def f(x):\n    x += 1  # here\n    return x\ny = map(f, xs)", "unknown"),
        ("class M(nn.Module):\n    def forward(self, x):\n        x += 1  # here\n        return x", "unknown"),
        ("x = 1\ndef f():\n    x.add_(1)  # here", "no"),
        ("def f():\n    global x\n    x += 1  # here", "no"),
        ("def g(y):\n    return y\na = b * 2\nx = g(a)\nx += 1  # here\nprint(a)", "no"),
        ("def g(y):\n    return y * 2\na = b * 2\nx = g(a)\nx += 1  # here\nprint(a)", "yes"),
        ("def g(y):\n    z = y.view(-1)\n    return z\na = b * 2\nx = g(a)\nx += 1  # here\nprint(a)", "no"),
        ("def g(y):\n    z = y * 2\n    return z\na = b * 2\nx = g(a)\nx += 1  # here\nprint(a)", "yes"),
        ("g = lambda y: y.view(-1)\na = b * 2\nx = g(a)\nx += 1  # here\nprint(a)", "no"),
        ("g = lambda y: y * 2\na = b * 2\nx = g(a)\nx += 1  # here\nprint(a)", "yes"),
        (f"{MODULE}\n        return y\nm = M()\nx = m(a)\nx += 1  # here\nprint(a)", "no"),
        (f"{MODULE}\n        return -y\nm = M()\nx = m(a)\nx += 1  # here\nprint(a)", "yes"),
        ("m = nn.Sequential(nn.Flatten(), nn.Dropout())\nx = m(a)\nx += 1  # here\nprint(a)", "no"),
        ("x = F.relu(a, inplace=True)\nx += 1  # here\nprint(a)", "no"),
        ("x = F.dropout(a, 0.1, flag)\nx += 1  # here\nprint(a)", "no"),
        ("x = a * b\nx.retain_grad()\nx += 1  # here", "no"),
    ],
)
def test_name(source, expected):
    files, code, statement = marked(source)
    path = "p" if "p " in statement.__class__.__name__ or "    p " in source else "x"
    assert may_rebind(files, code, statement, path) == expected


HIDING = [
    "{'k': x}['k']", "dict(k=x)['k']", "[t for t in [x]][0]", "tuple(t.view(-1) for t in (x,))[0]", "(kept + [x])[0]",
    "Box(x).h", "Box(x)[0]", "next(iter([x]))", "max([x], key=len)", "copy.copy([x])[0]", "deque([x])[0]",
    "partial(lambda t: t, x)()", "(lambda: x)()", "getattr(x, 'view')(-1)", "nn.Identity()(x)", "layers[0](x)",
    "unknown(x)", "self.unknown(x)", "x.broadcast_to(2, 3)", "torch.atleast_2d(x)", "x.positive()", "x.__getitem__(0)",
    "gen(x)", "star(x)", "named(t=x)", "closed(x)", "echo(x)", "Fn.apply(x)",
]  # fmt: skip
MAKING = [
    "x.exp()", "torch.exp(x)", "x * 2", "[t.exp() for t in [x]][0]", "nn.Linear(3, 3)(x)", "exp(x)", "sum([x])",
    "deepcopy([x])[0]", "doubled(x)", "twice(x)", "float(x)", "x[[0, 1]]", "Twice.apply(x)",
]  # fmt: skip
AROUND = """
import copy
from copy import deepcopy

import torch
from torch import exp, nn

def gen(t):
    yield t

def star(*ts):
    return ts[0]

def named(*, t):
    return t

def closed(t):
    def inner():
        return t
    return inner()

doubled = lambda t: t * 2

class Echo(nn.Module):
    def forward(self, t):
        return t

class Double(nn.Module):
    def forward(self, t):
        return t * 2

class Fn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t.view(-1)

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t * 2

echo, twice = Echo(), Double()

def f(a, kept, layers):
    x = a * 2
    {statement}
    x += 1  # here
    return x, v
"""
KEEPING = [
    "kept += [x]; v = kept", "kept |= {'k': x}; v = kept", "setattr(kept, 'k', x); v = kept", "s = {x}; v = s.pop()",
    "o = Box(x); v = o.h", "v = (w := x)", "v = kept; v.append(x)",
]  # fmt: skip


@pytest.mark.parametrize("statement", [*(f"v = {one}" for one in HIDING), *KEEPING])
def test_ways_to_hide_a_tensor(statement):
    files, code, write = marked(AROUND.replace("{statement}", statement))
    assert may_rebind(files, code, write, "x") == "no"


@pytest.mark.parametrize("made", MAKING)
def test_ways_to_make_a_new_one(made):
    files, code, write = marked(AROUND.replace("{statement}", f"v = {made}"))
    assert may_rebind(files, code, write, "x") == "yes"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("self.h = torch.zeros(3)", "yes"),
        ("self.h = nn.Parameter(torch.zeros(3))", "no"),
        ("self.register_buffer('h', torch.zeros(3))", "no"),
        ("self.h = given", "unknown"),
        ("pass", "unknown"),
    ],
)
def test_attribute(made, expected):
    source = f"""
    class A(nn.Module):
        def __init__(self, given):
            super().__init__()
            {made}

        def f(self):
            self.h += 1  # here
    """
    assert may_rebind(*marked(source), "self.h") == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a()\nx.add_(1)  # here\nprint(x)", True),
        ("x = a()\nx.add_(1)  # here", False),
        ("x = a()\nx.add_(1)  # here\nx = 2\nprint(x)", False),
        ("def f(x):\n    x.add_(1)  # here\n    return x", True),
        ("def f(x):\n    x.add_(1)  # here", False),
        ("for x in xs:\n    x.add_(1)  # here", False),
        ("for x in xs:\n    x.add_(1)  # here\n    out.append(x)", True),
        ("for i in n:\n    y = x * 2\n    x.add_(1)  # here", True),
        ("for i in n:\n    y = x * 2\nx.add_(1)  # here", False),
        ("def f(x):\n    x.add_(1)  # here\ndef g(x):\n    return x", False),
        ("def f(x):\n    if a:\n        x.add_(1)  # here\n        return 1\n    return x", False),
        ("while x.sum() < 3:\n    x.add_(1)  # here", True),
        ("x = a()\nx.add_(1)  # here\ndef f():\n    return x", True),
    ],
)
def test_read_later(source, expected):
    _, code, statement = marked(source)
    assert read_later(code, statement, "x") is expected
