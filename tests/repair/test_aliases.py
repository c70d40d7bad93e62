"""May a name be bound anew? Not where somebody else is to see the write."""

from __future__ import annotations

import ast
import textwrap

import pytest

from outplace.repair.aliases import may_rebind
from outplace.repair.code import Code
from outplace.repair.files import Files
from outplace.repair.flow import read_later


def marked(source: str) -> tuple[Files, Code, ast.stmt]:
    """The statement with `# here` behind it."""
    source = textwrap.dedent(source)
    line = next(number for number, text in enumerate(source.splitlines(), 1) if "# here" in text)
    files = Files({"a.py": source}, may_read=False)
    code = files.code("a.py")
    statements = [node for node in ast.walk(code.tree) if isinstance(node, ast.stmt) and node.lineno == line]
    return files, code, statements[-1]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a * b\nx += 1  # here\nprint(x)", "yes"),
        ("x = self.fc(a)\nx += 1  # here\nprint(x)", "yes"),
        ("x = torch.cat([a, b])\ny = torch.exp(x)\nx += 1  # here\nprint(x, y)", "yes"),
        ("x = a * b\ny = x\nx += 1  # here\nprint(x, y)", "no"),
        ("x = a * b\ny = x\nx += 1  # here\nprint(x)", "yes"),
        ("x = a * b\ny = x.view(-1)\nx += 1  # here\nprint(x, y)", "no"),
        ("x = a * b\ny = x[0]\nx += 1  # here\nprint(y)", "no"),
        ("x = a * b\nouts.append(x)\nx += 1  # here", "no"),
        ("x = a * b\nself.h = x\nx += 1  # here", "no"),
        ("x = a * b\nd = {}\nd['k'] = x\nx += 1  # here", "no"),
        ("x = a * b\ntable[:, 0] = x\nx += 1  # here\nprint(x)", "yes"),
        ("x = self.h\nx += 1  # here\nprint(x)", "no"),
        ("x = self.h.view(-1)\nx += 1  # here\nprint(x)", "no"),
        ("xs = [a * b]\nx = xs[0]\nx += 1  # here\nprint(xs)", "no"),
        ("b = a * 2\nx = b.T\nx += 1  # here\nprint(b)", "no"),
        ("b = a * 2\nx = b.T\nx += 1  # here\nprint(x)", "yes"),
        ("x, *y = a.chunk(3)\nx += 1  # here\nprint(x, y)", "yes"),
        ("x, *y = a.chunk(3)\nx += 1  # here\nprint(x, a)", "no"),
        ("for p in net.parameters():\n    p += 1  # here", "no"),
        ("for p in xs:\n    p *= 2  # here\n    print(p)", "no"),
        ("x = d.get('k')\nx += 1  # here", "no"),
        ("def f(x):\n    x += 1  # here\n    return x", "unknown"),
        ("def f(x):\n    x += 1  # here\n    return x\ny = f(a * 2)", "yes"),
        ("def f(x):\n    x += 1  # here\n    return x\na = b * 2\ny = f(a)\nprint(y)", "yes"),
        ("def f(x):\n    x += 1  # here\n    return x\na = b * 2\ny = f(a)\nprint(a)", "no"),
        ("def f(x):\n    x += 1  # here\na = b * 2\nf(a)\nprint(a)", "no"),
        ("def f(x):\n    x += 1  # here\n    return x\na = b * 2\na = f(a)\nprint(a)", "yes"),
        ("def f(x):\n    x += 1  # here\n    return x\nclass A:\n    def g(self):\n        y = f(self.h)", "no"),
        ("def f(x):\n    x += 1  # here\n    return x\nclass A:\n    def g(self):\n        self.h = f(self.h)", "yes"),
        ("def f(x):\n    x += 1  # here\n    return x\ny = map(f, xs)", "unknown"),
        ("class M:\n    def forward(self, x):\n        x += 1  # here\n        return x", "unknown"),
        ("x = 1\ndef f():\n    x.add_(1)  # here", "no"),
        ("def f():\n    global x\n    x += 1  # here", "no"),
        ("def g(y):\n    return y\na = b * 2\nx = g(a)\nx += 1  # here\nprint(a)", "no"),
        ("def g(y):\n    return y * 2\na = b * 2\nx = g(a)\nx += 1  # here\nprint(a)", "yes"),
        ("def g(y):\n    z = y.view(-1)\n    return z\na = b * 2\nx = g(a)\nx += 1  # here\nprint(a)", "no"),
        ("def g(y):\n    z = y * 2\n    return z\na = b * 2\nx = g(a)\nx += 1  # here\nprint(a)", "yes"),
        ("g = lambda y: y.view(-1)\na = b * 2\nx = g(a)\nx += 1  # here\nprint(a)", "no"),
        ("g = lambda y: y * 2\na = b * 2\nx = g(a)\nx += 1  # here\nprint(a)", "yes"),
        ("class M:\n    def forward(self, y):\n        return y\nm = M()\nx = m(a)\nx += 1  # here\nprint(a)", "no"),
        (
            "class M:\n    def forward(self, y):\n        return -y\nm = M()\nx = m(a)\nx += 1  # here\nprint(a)",
            "yes",
        ),
        ("m = nn.Sequential(nn.Flatten(), nn.Dropout())\nx = m(a)\nx += 1  # here\nprint(a)", "no"),
        ("x = F.relu(a, inplace=True)\nx += 1  # here\nprint(a)", "no"),
        ("x = F.dropout(a, 0.1)\nx += 1  # here\nprint(a)", "no"),
        ("x = a * b\nx.retain_grad()\nx += 1  # here", "no"),
    ],
)
def test_name(source, expected):
    files, code, statement = marked(source)
    path = "p" if "p " in statement.__class__.__name__ or "    p " in source else "x"
    assert may_rebind(files, code, statement, path) == expected


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("self.h = torch.zeros(3)", "yes"),
        ("self.h = nn.Parameter(torch.zeros(3))", "no"),
        ("self.register_buffer('h', torch.zeros(3))", "no"),
        ("self.h = given", "no"),
        ("pass", "unknown"),
    ],
)
def test_attribute(made, expected):
    source = (
        f"class A:\n    def __init__(self, given):\n        {made}\n    def f(self):\n        self.h += 1  # here\n"
    )
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
