"""Files that are analysed without their callers, beside what PyTorch says of them.

Each pair is a file with a module `Net` that breaks, and a twin that works, once the module is given the result of a
sigmoid. The finding must be a warning on the line that writes; the twin must bring nothing.
"""

from pathlib import Path

import pytest
import torch

from outplace.source.analysis import check_file
from outplace.source.project import Project

HEAD = """\
import functools
import torch
from torch import nn
from torch.nn import functional as F

"""

NET = """
class Net(nn.Module):
    def __init__(self, p=0.5, wide=True, deep=True):
        super().__init__()
        self.first, self.p, self.wide, self.deep = nn.Linear(4, 4), p, wide, deep
        self.gain = nn.Parameter(torch.ones(4))

    def forward(self, x):
        {}
"""

SHIFT = "def shift(t):\n    t += 1{}\n    return t\n"
SOFTMAX = "def weigh(t):\n    w = torch.softmax(t, -1)\n    w {} 0.5{}\n    return w\n"
TABLE = "table = type('Table', (), {'get': lambda self, key, default: default})()\n"
DOUBLE = "def double(t):\n    y = t.exp().view(-1, 4)\n    y {} 2{}\n    return y\n"
WRAPPER = """\
def timed(function):
    @functools.wraps(function)
    def run(*args):
        counts = {}
        counts["calls"] = 1
        return function(*args)
    return run

@timed
"""
ASKS = "def lookup(t):\n    return t.detach() if torch.is_grad_enabled() else t\n\n"
LONG = "def long(t):\n    n = 0\n" + "    n = 1 - n\n" * 900 + "    return t + n\n"
CHOICES = """\
y = self.first(x)
        if self.wide:
            y = y.relu()
        if self.deep:
            y = self.first(y)
        if self.p > 0.1:
            y = y * self.gain
        y = y.sigmoid()
        {}
        return y"""

PAIRS = {
    "what the caller has computed": (
        NET.format("x *= self.gain  # here\n        return x"),
        NET.format("x = x * self.gain\n        return x"),
    ),
    "a function that overwrites what its caller keeps": (
        SHIFT.format("  # here") + NET.format("return shift(x.exp())"),
        SHIFT.format("") + NET.format("return shift(self.first(x))"),
    ),
    "a function that is handed on": (
        TABLE + SOFTMAX.format("*=", "  # here") + NET.format("return table.get('b', weigh)(x)"),
        TABLE + SOFTMAX.format("= w *", "") + NET.format("return table.get('b', weigh)(x)"),
    ),
    "a function that a decorator replaces": (
        WRAPPER + DOUBLE.format("*=", "  # here") + NET.format("return double(x)"),
        WRAPPER + DOUBLE.format("= y *", "") + NET.format("return double(x)"),
    ),
    "a class whose name begins like that of a transform": (
        (NET + "\nNet = TransformerBlock\n")
        .replace("class Net", "class TransformerBlock")
        .format("y = self.first(x).exp()\n        y += 1  # here\n        return y"),
        (NET + "\nNet = TransformerBlock\n")
        .replace("class Net", "class TransformerBlock")
        .format("y = self.first(x) + 1\n        y += 1\n        return y"),
    ),
    "a dropout of unknown rate on one of two values": (
        NET.format(
            "y = self.first(x).relu() if self.wide else x.tanh()\n"
            "        y = F.dropout(y, p=self.p, training=self.training, inplace=True)  # here\n        return y"
        ),
        NET.format(
            "y = self.first(x).relu() if self.wide else x.tanh()\n"
            "        y = F.dropout(y, p=self.p, training=self.training)\n        return y"
        ),
    ),
    "the arm without an optional argument": (
        NET.replace("forward(self, x)", "forward(self, x, bias: torch.Tensor | None = None)").format(
            "if bias is not None:\n            return self.first(x) + bias.exp()\n"
            "        y = torch.softmax(x, -1)\n        y *= 2  # here\n        return y"
        ),
        NET.replace("forward(self, x)", "forward(self, x, bias: torch.Tensor | None = None)").format(
            "if bias is not None:\n            return self.first(x) + bias.exp()\n"
            "        y = self.first(x)\n        y *= 2\n        return y"
        ),
    ),
    "in a file where another function asks for the grad mode": (
        ASKS + DOUBLE.format("*=", "  # here") + NET.format("return double(x) + lookup(x)"),
        ASKS + DOUBLE.format("= y *", "") + NET.format("return double(x) + lookup(x)"),
    ),
    "one of many values": (
        NET.format(CHOICES.format("y += 1  # here")),
        NET.format(CHOICES.format("y = y + 1")),
    ),
    "after a call that takes long": (
        LONG + NET.format("y = (long(x) * 0 + x).exp()\n        y += 1  # here\n        return y"),
        LONG + NET.format("y = (long(x) * 0 + x).exp()\n        y = y + 1\n        return y"),
    ),
}

TWINS = {
    "who asks for it by an option": NET.replace("p=0.5", "inplace=False")
    .replace(
        "self.p, self.wide, self.deep = nn.Linear(4, 4), p,", "self.p, self.wide, self.deep = nn.Linear(4, 4), inplace,"
    )
    .format("return x.mul_(self.gain) if self.p else x * self.gain"),
    "what the grad mode rules out": NET.format(
        "if self.wide and self.p > 0 and not torch.is_grad_enabled():\n            x *= 2\n        return self.first(x)"
    ),
    "what a helper rules out by the grad mode": "def quick(t):\n    return t.exp().mul_(2)\n\n"
    "def may_write(t):\n    return not (torch.is_grad_enabled() and t.requires_grad)\n\n"
    + NET.format("return apply(x)")
    + "\ndef apply(t):\n    return quick(t) if may_write(t) else t.exp() * 2\n",
    "a function that is called for its writes": "def clear_border(t: torch.Tensor, width):\n    t[:, :width] = 0\n\n"
    + NET.format("return self.first(x)"),
    "images as they were loaded": NET.replace("p=0.5", "p=0.5, in_chans=3").format(
        "x = x.sin()\n        return self.scaled(x)\n\n    def scaled(self, image):\n"
        "        image *= 0.5\n        return self.first(image)"
    ),
    "a change of shape": "def widen(t: torch.Tensor):\n    return t.unsqueeze_(0)\n\n"
    + NET.format("return self.first(x)"),
    "an activation at the beginning of a block": NET.format("return self.first(F.relu(x * 1, inplace=True))"),
    "a function whose name says that it writes": "def scale_(x):\n    x *= x.size(0)\n    return x\n"
    + NET.format("return self.first(x)"),
}


def _raises(source: str) -> bool:
    names: dict[str, object] = {}
    exec(compile(source, "net.py", "exec"), names)
    torch.manual_seed(0)
    net = names["Net"]()  # type: ignore[operator]
    try:
        net(torch.rand(3, 4, requires_grad=True).sigmoid()).sum().backward()
    except RuntimeError as error:
        assert "in-place" in str(error) or "inplace" in str(error), error
        return True
    return False


def _found(source: str) -> set[tuple[int, str]]:
    return {(found.site.line, found.severity) for found in check_file("net.py", source, Project()).findings}


@pytest.mark.parametrize("name", PAIRS)
def test_pair(name: str) -> None:
    broken, works = (HEAD + source for source in PAIRS[name])
    lines = [number for number, line in enumerate(broken.splitlines(), 1) if "# here" in line]
    assert _raises(broken) and not _raises(works)
    assert {line for line, _ in _found(broken)} == set(lines)
    assert _found(works) == set()


@pytest.mark.parametrize("name", TWINS)
def test_twin(name: str) -> None:
    source = HEAD + TWINS[name]
    assert not _raises(source)
    assert _found(source) == set()


def test_what_computed_an_argument_is_named() -> None:
    (finding,) = check_file("net.py", HEAD + PAIRS["what the caller has computed"][0], Project()).findings
    assert finding.severity == "warning" and finding.saved_by is None
    assert "`*=` overwrites x, which the caller has handed in" in finding.message
    assert finding.message.endswith("(if what computed x keeps its result for backward, as ReLU does)")


def test_parts_of_what_is_not_known() -> None:
    """Tensors under different names, in what an unknown module returns or in a dict of tensors, are different ones."""
    source = HEAD + (
        "class Net(nn.Module):\n"
        "    def __init__(self, inner):\n"
        "        super().__init__()\n"
        "        self.inner, self.head = inner, nn.Linear(4, 4)\n\n"
        "    def forward(self, batch: dict[str, torch.Tensor]):\n"
        "        out = self.inner(batch['image'])\n"
        "        first, other = out.last, out.hidden\n"
        "        y = self.head(first)\n"
        "        {} *= 2\n"
        "        return y + other\n"
    )
    assert _found(source.format("first")) == {(15, "warning")}
    assert _found(source.format("other")) == set()


def test_what_is_imported_for_types_is_not_read(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "large.py").write_text("import torch\n\ndef f(x):\n    return x\n")
    net = package / "net.py"
    text = (
        "import torch\nfrom typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from .large import *\n"
        "{}\n\ndef g(x):\n    y = f(x)\n    y += 1\n    return y\n"
    )
    net.write_text(text.format(""))
    assert check_file(str(net), net.read_text(), Project()).dependencies == ()
    net.write_text(text.format("from .large import f"))
    assert check_file(str(net), net.read_text(), Project()).dependencies == (str(package / "large.py"),)


def test_a_layer_that_is_built_with_an_activation() -> None:
    """The result of an unknown layer is kept where an activation makes it; where none does, it may be written."""
    source = HEAD + (
        "from library import ConvModule\n\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.inner = ConvModule(4, 4, {})\n\n"
        "    def forward(self, x, pos):\n"
        "        x = self.inner(x)\n"
        "        x += pos\n"
        "        return x\n"
    )
    assert _found(source.format("act_cfg=dict(type='ReLU')")) == {(15, "warning")}
    assert _found(source.format("act_cfg=None")) == set()
    optional = source.replace("def __init__(self)", "def __init__(self, act_cfg=None)")
    assert _found(optional.format("act_cfg=act_cfg")) == set()
    assert _found(source.format("padding=1")) == set()


def test_one_kind_of_value_among_many() -> None:
    """A part of `chunk` is refused, even if it comes after many new tensors that the name may stand for."""
    source = HEAD + NET.format(
        "if self.wide:\n            x = F.pad(x, (0, 4))\n"
        "        q, k = self.first(x).chunk(2)\n"
        "        if self.deep:\n            q = q * (self.gain if self.wide else self.first(x).exp())\n"
        "        {}\n        return q @ k.T"
    )
    assert _found(source.format("q *= 2")) == {(19, "warning")}
    assert _found(source.format("q = q * 2")) == set()


def test_relative_imports_in_a_folder_that_is_no_package(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text("def halves(t):\n    return t[:, :2], t[:, 2:]\n")
    net = tmp_path / "net.py"
    text = (
        HEAD
        + "{}\n\n"
        + NET.format("a, b = {}(self.first(x))\n        y = a.exp() * a\n        b += 1\n        return y + b")
    )
    for imported, name in (("from . import parts", "parts.halves"), ("from .parts import halves", "halves")):
        net.write_text(text.format(imported, name))
        assert {found.site.line for found in check_file(str(net), net.read_text(), Project()).findings} == {18}
    net.write_text(text.format("from .parts import halves", "halves").replace("b += 1", "b = b + 1"))
    assert check_file(str(net), net.read_text(), Project()).findings == []


PLAIN_CLASS = """\
import torch

class Field:
    def warp(self, rotation{annotation}):
        theta = torch.linalg.norm(rotation, dim=-1)
        {write}
        return rotation / theta.unsqueeze(-1)

    def {name}(self, values):
        y = torch.exp(values)
        {other}
        return y
"""


def test_methods_of_objects_that_are_no_modules() -> None:
    wrong = PLAIN_CLASS.format(annotation="", write="theta += 1e-9", name="shift", other="y += 1")
    names: dict[str, type] = {}
    exec(wrong, names)
    for method in ("warp", "shift"):
        result = getattr(names["Field"](), method)(torch.rand(4, 3, requires_grad=True))
        with pytest.raises(RuntimeError, match=r"in-?place"):
            result.sum().backward()
    found = check_file("a.py", wrong, Project()).findings
    assert [(item.site.line, item.severity, item.hypothesis) for item in found] == [
        (6, "warning", "rotation requires grad"), (11, "warning", "values requires grad"),
    ]  # fmt: skip
    annotated = wrong.replace("rotation):", "rotation: torch.Tensor):")
    assert len(check_file("a.py", annotated, Project()).findings) == 2


@pytest.mark.parametrize(
    ("write", "name", "other"),
    [
        ("theta = theta + 1e-9", "shift", "y = y + 1"),
        ("theta = theta + 1e-9", "predict", "y += 1"),  # nobody trains through it, by its name
        ("theta = theta + 1e-9", "shift_", "y += 1"),
        ("theta = theta + 1e-9", "shift", "values += 1"),  # its caller may know that it writes
    ],
)
def test_methods_of_objects_that_are_no_modules_and_right(write: str, name: str, other: str) -> None:
    source = PLAIN_CLASS.format(annotation="", write=write, name=name, other=other)
    assert not check_file("a.py", source, Project()).findings


def test_methods_of_objects_that_are_called_under_no_grad() -> None:
    source = PLAIN_CLASS.format(annotation="", write="theta += 1e-9", name="shift", other="y = y + 1")
    assert check_file("a.py", source, Project()).findings
    for mode in ("no_grad", "inference_mode"):
        used = f"\ndef run(field, x):\n    with torch.{mode}():\n        return field.warp(x)\n"
        assert not check_file("a.py", source + used, Project()).findings
