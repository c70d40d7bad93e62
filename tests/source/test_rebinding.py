"""What the analysis knows of one write. The truth is found by running: with a copy before the write, does anything that
the program prints differ?"""

from __future__ import annotations

import contextlib
import io
import textwrap

import pytest

from outplace.source import write_questions
from outplace.source.facts import Question, WriteFacts
from outplace.source.write_questions import Inquiry

torch = pytest.importorskip("torch")

BEGINNING = "import torch\nfrom torch import nn\na, b = torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)\n"

SEEN = {
    "a list": "x = a * 2\nkept = [x]\nx += 1  # here\nprint(torch.stack(kept))",
    "a dict": "d = {'k': a * 2}\nx = d['k']\nx += 1  # here\nfor v in d.values():\n    print(v)",
    "a view of a view": "x = a * 2\ny = x.view(-1)[:4]\nx += 1  # here\nprint(y)",
    "the whole of a part": "w = a * 2\nx, y = w.chunk(2, 1)\nx += 1  # here\nprint(w)",
    "the same part twice": "w = a * 2\nx, y = w[..., 0], w[..., 0]\nx += 1  # here\nprint(y)",
    "a closure": "x = a * 2\ny = x\ndef show():\n    print(y)\nx += 1  # here\nshow()",
    "the next iteration": "w = a * 2\nfor i in range(2):\n    x = w[0]\n    x += 1  # here\n    print(x)",
    "the caller": "def f(x):\n    x += 1  # here\n    return x.sum()\nw = a * 2\nprint(f(w), w)",
    "an object": "class Box: pass\no = Box()\nx = a * 2\no.h = x\nx += 1  # here\nprint(o.h)",
    "numpy": "x = a * 2\ny = x.numpy()\nx += 1  # here\nprint(y.sum())",
    "a generator": "def g(w):\n    yield w\nx = a * 2\ny = list(g(x))\nx += 1  # here\nprint(y[0])",
    "a partial": "from functools import partial\nx = a * 2\ny = partial(torch.add, x)\nx += 1  # here\nprint(y(b))",
}
UNSEEN = {
    "nobody": "x = a * 2\nx += 1  # here\nprint(x)",
    "another name that nobody reads": "x = a * 2\ny = x\nx += 1  # here\nprint(x)",
    "the other part": "w = a * 2\nx, y = w.chunk(2, 1)\nx += 1  # here\nprint(x, y)",
    "another column": "w = a * 2\nx, y = w[..., 0], w[..., 1]\nx += 1  # here\nprint(x, y)",
    "the rest of it": "w = a * 2\nx = w[:1]\nx += 1  # here\nprint(x, w[1:])",
    "a copy": "x = a * 2\ny = x.clone()\nx += 1  # here\nprint(x, y)",
    "a name that is bound anew": "x = a * 2\ny = x\ny = y * 2\nx += 1  # here\nprint(x, y)",
    "a caller that does not look": "def f(x):\n    x += 1  # here\n    return x.sum()\nw = a * 2\nprint(f(w))",
    "its shape": "x = a * 2\ny = x\nx += 1  # here\nprint(x, y.shape)",
    "a list that is made anew": "x = a * 2\nkept = [x]\nkept = []\nx += 1  # here\nprint(x, kept)",
}


def facts(source: str, holder: str = "x") -> WriteFacts:
    line, text = next((n, text) for n, text in enumerate(source.split("\n"), 1) if "# here" in text)
    return Inquiry({"a.py": source}).ask(Question("a.py", line, len(text) - len(text.lstrip()), holder))


def output(source: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "a.py", "exec"), {})
    return printed.getvalue()


def with_copy(source: str) -> str:
    lines = source.split("\n")
    at = next(n for n, text in enumerate(lines) if "# here" in text)
    blanks = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    return "\n".join([*lines[:at], f"{blanks}x = x.clone()", *lines[at:]])


@pytest.mark.parametrize("body", SEEN.values(), ids=SEEN)
def test_somebody_sees_the_write(body):
    source = BEGINNING + body
    assert output(source) != output(with_copy(source))
    assert facts(source).may_rebind == "no"


@pytest.mark.parametrize("body", UNSEEN.values(), ids=UNSEEN)
def test_nobody_sees_the_write(body):
    source = BEGINNING + body
    assert output(source) == output(with_copy(source))
    assert facts(source).may_rebind == "yes"


def test_an_unknown_caller_may_see_it():
    assert facts(BEGINNING + "def f(x):\n    x += 1  # here\n    return x").may_rebind == "unknown"


def test_what_is_known_beside_that():
    source = textwrap.dedent("""
    def f(x):
        y = x
        x += 1  # here
        return y.sum()

    w = a * 2
    print(f(w), w)
    """)
    found = facts(BEGINNING + source)
    assert {(read.text, read.where) for read in found.reads} >= {("y", "here"), ("w", "caller")}
    assert found.names == ("y",)
    assert (found.parameter, found.leaf, found.requires_grad) == ("no", "no", "no")


def test_a_parameter_is_its_modules():
    found = facts(BEGINNING + "x = nn.Linear(3, 3).weight\nwith torch.no_grad():\n    x += 1  # here\nprint(x)")
    assert found.held and (found.parameter, found.leaf, found.requires_grad) == ("yes", "yes", "yes")


THROUGH_UNKNOWN = """
class Gate(nn.Module):
    def __init__(self, width, activation):
        super().__init__()
        self.pool, self.activation = nn.AdaptiveAvgPool2d(1), activation()
    def gate(self, x):
        return self.activation({given})
    def forward(self, x):
        g = self.gate(x)
        x += 1  # here
        return g * x
"""


@pytest.mark.parametrize(("given", "read"), [("self.pool(x)", False), ("x", True)])
def test_what_an_unknown_layer_may_return(given, read):
    """A layer that is not known may return its own input; that of the pool is no memory of x."""
    known = facts(BEGINNING + THROUGH_UNKNOWN.format(given=given))
    assert known.reached
    assert any("g" in one.text for one in known.reads) == read


BUILDERS = "\n".join(f"def make_{n}():\n    return Net({n})" for n in range(30))
PACKAGE = f"""
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a, self.b = nn.Linear(width, width), nn.Linear(width, width)
    def forward(self, x):
        y = self.a(x)
        x += 1  # here
        z = self.b(y)
        y += 1  # there
        return z + x + y
{BUILDERS}
def train(net):
    w = torch.ones(2, 3)
    net = Net(3)
    print(net(w), w)
"""


def test_a_second_question_runs_only_what_leads_to_the_statement(monkeypatch):
    source, ran = BEGINNING + PACKAGE, []
    run_alone = write_questions._run_alone

    def noting(run, module, function, *rest):
        ran.append(function.node.name)
        return run_alone(run, module, function, *rest)

    monkeypatch.setattr(write_questions, "_run_alone", noting)
    inquiry = Inquiry({"a.py": source})

    def ask(word, holder):
        return inquiry.ask(Question("a.py", line_of(source, word), 8, holder))

    first = ask("# here", "x")
    assert {"train", "make_0", "make_29"} <= set(ran)
    assert first.may_rebind == "no"  # `train` prints w
    ran.clear()
    second = ask("# there", "y")
    assert ran == ["train"]
    assert second.reached
    assert second == Inquiry({"a.py": source}).ask(Question("a.py", line_of(source, "# there"), 8, "y"))


def line_of(source: str, word: str) -> int:
    return next(n for n, text in enumerate(source.split("\n"), 1) if word in text)
