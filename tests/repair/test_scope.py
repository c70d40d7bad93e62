"""Where a tensor that was written in place may get a new tensor under its name instead."""

from __future__ import annotations

import ast
import textwrap

import pytest

from outplace.repair.scope import can_rebind, read_later


def marked(source: str) -> tuple[ast.stmt, ast.Module]:
    """The statement with `# here` behind it."""
    source = textwrap.dedent(source)
    line = next(number for number, text in enumerate(source.splitlines(), 1) if "# here" in text)
    module = ast.parse(source)
    statements = [node for node in ast.walk(module) if isinstance(node, ast.stmt) and node.lineno == line]
    return statements[-1], module


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a()\nx.add_(1)  # here\nprint(x)", True),
        ("x = a()\nx.add_(1)  # here", False),
        ("def f(x):\n    x.add_(1)  # here\n    return x", True),
        ("def f(x):\n    x.add_(1)  # here", False),
        ("for x in xs:\n    x.add_(1)  # here", False),
        ("for x in xs:\n    x.add_(1)  # here\n    out.append(x)", True),
        ("for i in n:\n    y = x * 2\n    x.add_(1)  # here", True),
        ("for i in n:\n    y = x * 2\nx.add_(1)  # here", False),
        ("def f(x):\n    x.add_(1)  # here\ndef g(x):\n    return x", False),
    ],
)
def test_read_later(source: str, expected: bool) -> None:
    assert read_later("x", *marked(source)) is expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a()\nx.add_(1)  # here", True),
        ("x = a()\ndef f():\n    x.add_(1)  # here\n    return x", False),
        ("x = a()\ndef f():\n    global x\n    x.add_(1)  # here", True),
        ("def f(x):\n    x.add_(1)  # here", True),
        ("def f():\n    x = a()\n    x.add_(1)  # here", True),
        ("def f(x):\n    def g():\n        x.add_(1)  # here\n    return g", False),
    ],
)
def test_can_rebind(source: str, expected: bool) -> None:
    assert can_rebind("x", *marked(source)) is expected
