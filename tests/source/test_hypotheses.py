"""Modules that are analysed without their callers, beside what PyTorch says once their input requires grad.

Each pair is the body of a `forward` that breaks, and a twin that works. A warning must name the hypothesis, and the
line that writes; the twin must bring nothing.
"""

import textwrap

import pytest
import torch
from torch import nn

from outplace.checking.config import Config
from outplace.checking.settings import Overrides, resolve
from outplace.source.analysis import check_file
from outplace.source.project import Project

MODULE = """\
import torch
from torch import nn

def exists(value):
    return value is not None

def default(value, other):
    return value if exists(value) else other

class Net(nn.Module):
    def __init__(self, layer=nn.Linear, act=None):
        super().__init__()
        self.first = layer(4, 4)
        self.act = default(act, nn.Sigmoid())
        self.norm = nn.LayerNorm(4)
        self.pairs = nn.ModuleList([])
        for _ in range(2):
            self.pairs.append(nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)]))

    def forward(self, x):
"""
PAIRS = {
    "the norm of a tensor that is then divided": (
        "norm = x.pow(2).sum(dim=1, keepdim=True).sqrt()\nx /= norm  # here\nreturn x",
        "norm = x.pow(2).sum(dim=1, keepdim=True).sqrt()\nx = x / norm\nreturn x",
    ),
    "a residual that is added in place": (
        "for one, other in self.pairs:\n    x = x + one(x)\n    x += other(x)  # here\nreturn x",
        "for one, other in self.pairs:\n    x = x + one(x)\n    x = other(x) + x\nreturn x",
    ),
    "a residual added to what nothing kept": (
        "y = self.first(x)\nx += self.norm(y)  # here\nreturn x",
        "y = self.first(x)\ny += x\nreturn y",
    ),
    "an operand of a product": (
        "y = x * self.first(x)\nx *= 0.5  # here\nreturn y",
        "y = x + self.first(x)\nreturn y * 0.5",
    ),
    "parts that map hands on": (
        "q, k = map(lambda t: t.view(3, 2, 2), self.first(x).chunk(2, dim=0))\nq *= 0.5  # here\nreturn q @ k",
        "q, k = map(lambda t: t.view(3, 2, 2), self.first(x).chunk(2, dim=0))\nq = q * 0.5\nreturn q @ k",
    ),
    "a result that an activation keeps": (
        "y = self.act(self.first(x))\ny += 1  # here\nreturn y",
        "y = self.first(self.act(x))\ny += 1\nreturn y",
    ),
    "an argument or what stands for it": (
        "y = default(None, x).exp()\ny *= 2  # here\nreturn y",
        "y = default(None, x) + 1\ny *= 2\nreturn y",
    ),
}


def _source(body: str) -> str:
    return MODULE + textwrap.indent(body, "        ") + "\n"


def _raises(source: str) -> bool:
    names: dict[str, object] = {}
    exec(compile(source, "net.py", "exec"), names)
    torch.manual_seed(0)
    net = names["Net"]()  # type: ignore[operator]
    x = torch.rand(6, 4, requires_grad=True)
    try:
        net(x + 0).sum().backward()
    except RuntimeError:
        return True
    return False


@pytest.mark.parametrize("name", PAIRS)
def test_pair(name: str) -> None:
    broken, right = map(_source, PAIRS[name])
    assert _raises(broken) and not _raises(right)
    lines = {number for number, line in enumerate(broken.splitlines(), 1) if line.endswith("# here")}
    assert {finding.site.line for finding in check_file("net.py", broken, Project()).findings} == lines
    assert not check_file("net.py", right, Project()).findings


def test_the_hypothesis_is_named_and_can_be_switched_off() -> None:
    source = _source(PAIRS["the norm of a tensor that is then divided"][0])
    (finding,) = check_file("net.py", source, Project()).findings
    assert finding.severity == "warning" and finding.hypothesis == "x requires grad"
    assert finding.message.endswith("(if x requires grad)")
    assert resolve(Config("."), Overrides(".")).keep([finding]) == [finding]
    assert resolve(Config("."), Overrides(".", assume_grad=False)).keep([finding]) == []
    assert resolve(Config(".", assume_grad=False), Overrides(".")).keep([finding]) == []
    assert resolve(Config(".", assume_grad=False), Overrides(".", assume_grad=True)).keep([finding]) == [finding]


UNTRAINED = {
    "no_grad": "with torch.no_grad():\n    y = x.exp()\n    y += 1\nreturn y",
    "evaluation": "if not self.training:\n    y = x.exp()\n    y += 1\n    return y\nreturn x",
    "numbers": "y = x.long()\nz = y * y\ny += 1\nreturn z",
    "docstring": '"""Only used for inference."""\ny = x.exp()\ny += 1\nreturn y',
}


@pytest.mark.parametrize("name", UNTRAINED)
def test_code_that_nobody_trains_through(name: str) -> None:
    assert not check_file("net.py", _source(UNTRAINED[name]), Project()).findings


def test_functions_of_tensors_are_judged_unless_their_names_say_that_nobody_trains_through_them() -> None:
    source = "import torch\n\ndef scaled(x):\n    y = x.exp()\n    y += 1\n    return y\n"
    assert check_file("a.py", source, Project()).findings
    for path, name in (("optim.py", "scaled"), ("a.py", "load_scaled"), ("a.py", "scaled_")):
        assert not check_file(path, source.replace("scaled", name), Project()).findings
    assert check_file("optim.py", source.replace("scaled", "scaled_loss"), Project()).findings
    assert not check_file("a.py", source.replace("x.exp()", "f(x)"), Project()).findings


def test_unknown_layers_keep_their_input_and_return_new_tensors() -> None:
    head = "import torch\nfrom torch import nn\n\nclass Net(nn.Module):\n    def __init__(self, body):\n"
    head += "        super().__init__()\n        self.body = body\n\n    def forward(self, x):\n"
    (finding,) = check_file(
        "a.py", head + "        y = self.body(x)\n        x += y\n        return x\n", Project()
    ).findings
    assert finding.severity == "warning" and "`self.body` keeps its input" in finding.hypothesis
    assert not check_file(
        "a.py", head + "        y = self.body(x)\n        y += x\n        return y\n", Project()
    ).findings


def test_layers() -> None:
    """The assumption about layers, held against those of torch that have parameters."""
    for layer in (nn.Linear(4, 4), nn.LayerNorm(4), nn.Conv1d(4, 4, 1), nn.BatchNorm1d(4)):
        x = torch.rand(4, 4, requires_grad=True) + 0
        y = layer(x)
        x += 1
        with pytest.raises(RuntimeError, match=r"in-?place"):
            y.sum().backward()
