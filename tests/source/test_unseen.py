"""Training code that is analysed without the networks and optimizers that it is given, beside what PyTorch says of it.

Each pair is a file that breaks, and a twin that works, once real networks are handed in. The finding must be a warning
on the line that steps; the twin must bring nothing.
"""

import sys
import types
from pathlib import Path

import pytest
import torch
from torch import nn

from outplace.source.analysis import check_file
from outplace.source.project import Project

HEAD = "import copy\nimport torch\nfrom torch import nn, optim\n\n"
HANDED_IN = """\
def train(actor, critic, batches):
    first = optim.Adam(filter(lambda p: p.requires_grad, critic.parameters()))
    second = optim.Adam(actor.parameters())
    for x in batches:
        {}
"""
TRAINER = """\
class Trainer:
    def __init__(self, actor, critic, optimizer_class=optim.Adam):
        self.actor, self.critic = actor, critic
        self.target = copy.deepcopy(critic)
        self.first = optimizer_class(self.critic.parameters(), lr=0.1)
        self.second = optimizer_class(self.actor.parameters(), lr=0.1)

    def update(self, optimizer, loss):
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step(){}

    def learn(self, x):
        {}

def train(actor, critic, batches):
    Trainer(actor, critic).learn(batches[0])
"""
OPTIMIZERS = """\
def learn(x, actor, critic, optimizer, other):
    critic.train()
    value = critic(x)
    loss = value.mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    {}
    {}.backward()
    other.step()

def train(actor, critic, batches):
    learn(batches[0], actor, critic, optim.Adam(critic.parameters()), optim.Adam(actor.parameters()))
"""
BUILT = """\
class Critic(nn.Module):
    def __init__(self, build):
        super().__init__()
        self.body = build(4, 4)

    def forward(self, x):
        return self.body(x)

class Agent:
    def __init__(self, build):
        self.critic = Critic(build)
        self.optim = optim.SGD(self.critic.parameters(), lr=0.1)

    def learn(self, x):
        value = self.critic(x.exp())
        {}

def train(actor, critic, batches):
    Agent(lambda *sizes: critic).learn(batches[0].requires_grad_())
"""
MEMORY = """\
class Learner:
    def __init__(self, critic, memory):
        self.critic, self.memory = critic, memory
        self.optim = optim.SGD(critic.parameters(), lr=0.1)

    def learn(self):
        value = self.critic(self.memory.sample())
        {}

def train(actor, critic, batches):
    Learner(critic, type("Memory", (), {{"sample": lambda self: batches[0]}})()).learn()
"""
PAIRS = {
    "a network that is given what an unknown object hands out": (
        MEMORY.format(
            "value.mean().backward(retain_graph=True)\n        self.optim.step()  # here\n"
            "        value.sum().backward()"
        ),
        MEMORY.format("value.mean().backward()\n        self.optim.step()\n        return value.detach()"),
    ),
    "a loss that was computed before the step": (
        HANDED_IN.format(
            "loss, value = -critic(actor(x)).mean(), critic(x).mean()\n"
            "        value.backward()\n        first.step()  # here\n        loss.backward()\n        second.step()"
        ),
        HANDED_IN.format(
            "loss, value = -critic(actor(x)).mean(), critic(x).mean()\n"
            "        loss.backward()\n        second.step()\n        value.backward()\n        first.step()"
        ),
    ),
    "a generator and its discriminator": (
        HANDED_IN.format(
            "fake = actor(x)\n        out = critic(fake)\n        out.mean().backward(retain_graph=True)\n"
            "        first.step()  # here\n        (-out.mean()).backward()\n        second.step()"
        ),
        HANDED_IN.format(
            "fake = actor(x)\n        out = critic(fake.detach())\n        out.mean().backward()\n"
            "        first.step()\n        (-critic(fake).mean()).backward()\n        second.step()"
        ),
    ),
    "a helper that runs backward and steps": (
        TRAINER.format(
            "  # here",
            "value, loss = self.critic(x).mean(), self.critic(self.actor(x)).mean()\n"
            "        self.update(self.first, value)\n        self.update(self.second, loss)",
        ),
        TRAINER.format(
            "",
            "value, loss = self.critic(x).mean(), self.target(self.actor(x)).mean()\n"
            "        self.update(self.first, value)\n        self.update(self.second, loss)",
        ),
    ),
    "an optimizer that is handed in": (
        OPTIMIZERS.format("optimizer.step()  # here", "actor(critic(x) * value).mean()"),
        OPTIMIZERS.format("optimizer.step()", "actor(critic(x) * value.detach()).mean()"),
    ),
    "a network that unknown code builds": (
        BUILT.format(
            "value.mean().backward(retain_graph=True)\n        self.optim.step()  # here\n"
            "        value.sum().backward()"
        ),
        BUILT.format(
            "value.mean().backward(retain_graph=True)\n        value.sum().backward()\n        self.optim.step()"
        ),
    ),
}


def _raises(source: str) -> bool:
    names: dict[str, object] = {}
    exec(compile(HEAD + source, "train.py", "exec"), names)
    torch.manual_seed(0)
    actor, critic = (nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)) for _ in range(2))
    try:
        names["train"](actor, critic, [torch.randn(3, 4) for _ in range(2)])  # type: ignore[operator]
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
        return True
    return False


def _found(source: str) -> set[tuple[int, str]]:
    """Without the function that brings the networks."""
    alone = HEAD + source.partition("\ndef train(")[0] if "\ndef train(" in source else HEAD + source
    return {(finding.site.line, finding.severity) for finding in check_file("train.py", alone, Project()).findings}


@pytest.mark.parametrize("name", PAIRS)
def test_pair(name: str) -> None:
    """The analysis and PyTorch both find the first of a pair wrong, on the same line."""
    wrong, _ = PAIRS[name]
    line = next(n for n, text in enumerate((HEAD + wrong).splitlines(), 1) if "# here" in text)
    assert _raises(wrong)
    assert _found(wrong) == {(line, "warning")}


@pytest.mark.parametrize("name", PAIRS)
def test_twin(name: str) -> None:
    """The second of a pair works, and nothing is said of it."""
    _, right = PAIRS[name]
    assert not _raises(right)
    assert _found(right) == set()


def test_a_loss_that_is_returned_after_its_backward() -> None:
    """It is only shown: nobody runs its backward again."""
    source = (
        "def step(x, net, optimizer):\n    loss = net(x).exp().mean()\n    loss.backward()\n    optimizer.step()\n    "
    )
    loop = "net = nn.Linear(4, 1)\noptimizer = optim.SGD(net.parameters(), lr=0.1)\n\n"
    assert _found(loop + source.replace("x, net, optimizer", "x") + "return loss\n") == set()
    assert _found(source + "return loss\n") == set()


def test_a_program_that_imports_everything(tmp_path: Path) -> None:
    """`import *` takes over no `__name__`: the main part of the program runs."""
    (tmp_path / "networks.py").write_text("from torch import nn\n\ndef build():\n    return nn.Linear(4, 1)\n")
    main = (
        "import torch\nfrom networks import *\n\nif __name__ == '__main__':\n    net = build()\n"
        "    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n    out = net(torch.ones(2, 4).requires_grad_())\n"
        "    out.sum().backward(retain_graph=True)\n    optimizer.step()\n    out.mean().backward()\n"
    )
    (tmp_path / "main.py").write_text(main)
    found = check_file(str(tmp_path / "main.py"), main, Project()).findings
    assert [(finding.code, finding.site.line, finding.severity) for finding in found] == [("OUT202", 9, "error")]


@pytest.mark.parametrize(
    ("listed", "name", "shown"),
    [
        ("", "grow", True),
        ("", "_grow", False),  # Python leaves out names with an underscore, unless they are listed
        ("__all__ = ['_grow']", "_grow", True),
        ("__all__ = ['_' + name for name in ('grow',)]", "_grow", True),  # the module is run to know it
        ("from .deeper import *", "deep", True),
    ],
)
def test_what_import_star_takes_over(tmp_path: Path, listed: str, name: str, shown: bool) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "deeper.py").write_text("def deep(t):\n    return t.exp()\n")
    inner = f"import torch\n{listed}\n\ndef grow(t):\n    return t.exp()\n\ndef _grow(t):\n    return t.exp()\n"
    (package / "inner.py").write_text(inner)
    source = (
        "import torch\nfrom .inner import *\n\n"
        f"def f(x: torch.Tensor):\n    y = {name}(x.requires_grad_())\n    y += 1\n    return y\n"
    )
    (package / "net.py").write_text(source)
    found = check_file(str(package / "net.py"), source, Project()).findings
    assert [finding.site.line for finding in found] == [6] * shown


def test_a_module_that_is_imported_whole_and_not_used(tmp_path: Path) -> None:
    (tmp_path / "inner.py").write_text("import torch\n\ndef grow(t):\n    return t.exp()\n")
    for name, starts in (("other", False), ("grow", True)):
        source = f"import torch\nfrom inner import *\n\ndef f(x):\n    y = {name}(x)\n    y += 1\n    return y\n"
        project = Project()
        check_file(str(tmp_path / "main.py"), source, project)
        module = project.load(str(tmp_path / "inner.py"))
        assert module is not None
        assert module.started is starts


def test_a_folder_that_is_no_package(tmp_path: Path) -> None:
    """A program that is started in the project's folder finds the folders in it."""
    (tmp_path / "requirements.txt").write_text("torch\n")
    (tmp_path / "parts" / "inner").mkdir(parents=True)
    (tmp_path / "parts" / "base.py").write_text("def grow(t):\n    return t.exp()\n")
    source = (
        "import torch\nfrom torch import nn\nfrom parts.base import grow\n\nclass Net(nn.Module):\n"
        "    def forward(self, x):\n        y = grow(x)\n        y += 1\n        return y\n"
    )
    path = tmp_path / "parts" / "inner" / "net.py"
    path.write_text(source)
    found = check_file(str(path), source, Project()).findings
    assert [(finding.code, finding.site.line) for finding in found] == [("OUT201", 8)]
    (tmp_path / "requirements.txt").unlink()  # then nothing says that the folder is a project's
    assert check_file(str(path), source, Project()).findings == []


def test_modules_that_are_added_under_any_name() -> None:
    """`add_module` of a container: the children run in the order in which they were added."""
    source = (
        "class Net(nn.Module):\n    def __init__(self, depth):\n        super().__init__()\n"
        "        self.body = nn.Sequential()\n        for place in range(depth):\n"
        "            self.body.add_module('part%d' % place, nn.Sequential(nn.Linear(4, 4), nn.{}()))\n\n"
        "    def forward(self, x):\n        y = self.body(x)\n        y += 1\n        return y\n"
    )
    assert {line for line, _ in _found(source.format("Sigmoid"))} == {14}
    assert _found(source.format("Dropout")) == set()


def test_a_module_that_is_added_on_one_path() -> None:
    """On the other one it is not there: its activation does not meet the one that takes its place."""
    source = (
        "class Net(nn.Module):\n    def __init__(self, first):\n        super().__init__()\n"
        "        self.body = nn.Sequential()\n        self.body.add_module('linear', nn.Linear(4, 4))\n"
        "        self.body.add_module('act', nn.{}() if first else nn.Identity())\n"
        "        if {}first:\n            self.body.add_module('other', nn.ReLU(inplace=True))\n\n"
        "    def forward(self, x):\n        return self.body(x)\n"
    )
    assert {line for line, _ in _found(source.format("Sigmoid", ""))} == {15}
    assert _found(source.format("Sigmoid", "not ")) == set()


LOOKED_UP = """\
from typing import Type, Union

class Block(nn.Module):
    def forward(self, x):
        return x.{saved}()

class Other(nn.Module):
    def forward(self, x):
        return x

class Net(nn.Module):
    def __init__(self, act, block: Type[Union[Block, Other]]):
        super().__init__()
        self.first, self.made = nn.Linear(4, 4), {made}

    def forward(self, x):
        y = self.made(self.first(x))
        y += 1
        return y
"""


@pytest.mark.parametrize(
    ("made", "saved", "is_wrong"),
    [
        ("getattr(nn, act)()", "abs", True),
        ("getattr(nn, act)(4)", "abs", False),  # a norm, say: it keeps its input
        ("getattr(torch.nn.functional, act)", "abs", True),
        ("block()", "exp", True),
        ("block()", "neg", False),
        ("act", "abs", False),
    ],
)
def test_what_is_found_by_a_name_or_named_by_an_annotation(made: str, saved: str, is_wrong: bool) -> None:
    """`getattr(nn, act)()` is an activation, and `Type[Union[A, B]]` stands for A."""
    source = LOOKED_UP.format(made=made, saved=saved)
    assert {line for line, _ in _found(source)} == ({22} if is_wrong else set())
    names: dict[str, object] = {}
    exec(compile(HEAD + source, "net.py", "exec"), names)
    act = {"getattr(nn, act)(4)": "LayerNorm", "act": nn.Identity()}.get(
        made, "ReLU" if ".functional" not in made else "relu"
    )
    net = names["Net"](act, names["Block"])  # type: ignore[operator]
    if is_wrong:
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            net(torch.ones(2, 4)).sum().backward()
    else:
        net(torch.ones(2, 4)).sum().backward()


def test_one_of_several_activations() -> None:
    """Each of them writes in place, but only one of them is there: it does not overwrite what another one keeps."""
    source = (
        "ACTS = {{'relu': nn.ReLU, 'elu': nn.ELU}}\n\nclass Net(nn.Module):\n    def __init__(self, act):\n"
        "        super().__init__()\n        self.first = nn.Linear(4, 4)\n"
        "        self.act = ACTS.get(act, nn.ReLU)(inplace=True)\n\n"
        "    def forward(self, x):\n        y = self.act(self.first(x))\n        return {}\n"
    )
    assert _found(source.format("y")) == set()
    assert {line for line, _ in _found(source.format("y.mul_(2)"))} == {15}


HEADS = """\
from einops import rearrange

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_qk = nn.Linear(8, 16)

    def forward(self, x):
        q, k = self.to_qk(x).chunk(2, dim=-1)
        q, k = map(lambda t: rearrange(t, 'b n (h d) -> {}', h=2), (q, k))
        {}
        return q @ k.transpose(-1, -2)
"""


def _split_heads(tensor: torch.Tensor, _pattern: str, h: int) -> torch.Tensor:
    """What einops does for `b n (h d) -> (b h) n d`."""
    batch, rows, width = tensor.shape
    return tensor.reshape(batch, rows, h, width // h).permute(0, 2, 1, 3).reshape(batch * h, rows, width // h)


def test_a_batch_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """`(b h)` copies the parts of a batch of several rows; of one row it makes views of them."""
    wrong = HEADS.format("(b h) n d", "q *= 0.5")
    assert _found(wrong) == {(15, "warning")}
    assert _found(HEADS.format("(b h) n d", "q = q * 0.5")) == set()
    assert _found(HEADS.format("(d h) n b", "q *= 0.5")) == set()
    einops = types.ModuleType("einops")
    einops.rearrange = _split_heads  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "einops", einops)
    names: dict[str, object] = {}
    exec(compile(HEAD + wrong, "net.py", "exec"), names)
    net = names["Net"]()  # type: ignore[operator]
    net(torch.ones(2, 3, 8)).sum().backward()
    with pytest.raises(RuntimeError, match="multiple views"):
        net(torch.ones(1, 3, 8))


HANDED = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, x: {}):
        {}
"""


@pytest.mark.parametrize(
    ("annotation", "wrong", "right"),
    [
        ("dict[str, torch.Tensor]", "y = x['a']\n        y += 1\n        return y", "y = x['a'] + 1\n        return y"),
        (
            "dict[str, torch.Tensor]",
            "parts = list(x.values())\n        out = self.first(parts[-1])\n        parts[-1] *= 2\n        return out",
            "parts = list(x.values())\n        out = self.first(parts[-1])\n        return out * 2",
        ),
        (
            "dict[str, torch.Tensor]",
            "out = self.first(x['a'])\n        x['a'] += 1\n        return out",
            "out = self.first(x['a'])\n        out += 1\n        return out",
        ),
    ],
)
def test_a_dict_of_tensors(annotation: str, wrong: str, right: str) -> None:
    """The tensors of an annotated dict are arguments like others: whoever computed them may keep them."""
    source = HANDED.format(annotation, wrong)
    line = next(n for n, text in enumerate((HEAD + source).splitlines(), 1) if "+= 1" in text or "*= 2" in text)
    assert {at for at, _ in _found(source)} == {line}
    assert _found(HANDED.format(annotation, right)) == set()
    names: dict[str, object] = {}
    exec(compile(HEAD + source, "net.py", "exec"), names)
    given = torch.ones(2, 4, requires_grad=True).sigmoid()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        names["Net"]()({"b": torch.ones(2, 4), "a": given}).sum().backward()  # type: ignore[operator]


def test_a_state_that_is_handed_on() -> None:
    """The parts of a state are tensors of their own, which the last step may have kept."""
    source = (
        "class Cell(nn.Module):\n    def forward(self, x, state):\n        total, count = state\n"
        "        {}\n        return (x * total).sum(), (total, count)\n"
    )
    assert {line for line, _ in _found(source.format("total += x"))} == {8}
    assert _found(source.format("total = total + x")) == set()
    names: dict[str, object] = {}
    exec(compile(HEAD + source.format("total += x"), "cell.py", "exec"), names)
    cell, x = names["Cell"](), torch.ones(3, requires_grad=True)  # type: ignore[operator]
    first, state = cell(x, (torch.zeros(3), torch.zeros(3)))
    second, _ = cell(x, state)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        (first + second).backward()


def test_one_of_many_values() -> None:
    """Of too many values some are unknown: `x[:, 0] = ...` still means a tensor."""
    source = (
        "class Net(nn.Module):\n    def __init__(self, a, b, c):\n        super().__init__()\n"
        "        self.a, self.b, self.c = a, b, c\n        self.first = nn.Linear(4, 4)\n\n"
        "    def forward(self, x):\n        y = self.first(x)\n"
        "        y = y + 1 if self.a else y + 2 if self.b else y + 3\n        y = y + 1 if self.c else y + 2\n"
        "        out = self.first(y)\n        {}\n        return out\n"
    )
    assert {line for line, _ in _found(source.format("y[:, 0] = 0"))} == {16}
    assert _found(source.format("out[:, 0] = 0")) == set()
