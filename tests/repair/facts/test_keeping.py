"""What a user's own module returns is nobody else's only if its forward keeps it nowhere.

The truth is found by running: a model writes `gate` in place, or into a copy of it. If anything that the program can
still see differs, somebody else held `gate`, and the copy must not be called safe.
"""

from __future__ import annotations

import ast
import gc
import textwrap

import pytest

from outplace.repair.facts.aliases import may_rebind
from outplace.repair.syntax.files import Files

torch = pytest.importorskip("torch")

MODEL = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = Attend()
        {setup}

    def forward(self, x):
        words = x * 2
        context, gate = self.attend(words)
        return self.decode(words, context, gate)

    def decode(self, words, context, gate):
        {copy}
        gate[:, 0] = 7.0
        return (words + context + gate).sum()
"""

ATTEND = """
class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        {init}

    def forward(self, x):
        gate = torch.sigmoid(self.lin(x))
        {body}
        return gate * x, gate
"""


def attend(body: str = "", init: str = "") -> str:
    return ATTEND.format(body=textwrap.indent(body, " " * 8).strip() or "pass", init=init or "pass")


NOBODY_ELSE = {
    "fresh": attend(),
    "another one is kept": attend("self.last = x"),
    "a copy is kept": attend("self.last = gate.clone()"),
    "a number is kept": attend("self.last = gate.mean().item()"),
    "a result is kept": attend("self.log.append(gate.sum())", "self.log = []"),
    "what is computed of it is kept": attend("self.last = gate * 2 if self.training else None"),
    "in a list that is gone": attend("states = [x]\nstates.append(gate)\nprint(states[1].mean())"),
    "in a list for a function that keeps nothing": "def show(states):\n    print(states[1].shape)\n"
    + attend("states = [x]\nstates.append(gate)\nshow(states)"),
    "told to a function that keeps nothing": "def show(t):\n    print(t.shape)\n" + attend("show(gate)"),
    "told to a method that keeps a copy": attend("self.note(gate)")
    + "\n    def note(self, t):\n        self.last = t.clone()\n",
    "a hook that only looks": attend() + "\ndef look(m, i, o):\n    print(o[0].mean())\n\ndef setup(model):\n"
    "    model.attend.register_forward_hook(look)\n",
    "a decorator of torch": attend().replace("    def forward", "    @torch.no_grad()\n    def forward"),
    "from a submodule": """
class Inner(nn.Module):
    def forward(self, x):
        y = x.exp()
        return y


class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        gate = self.inner(x)
        return gate * x, gate
""",
}

SOMEBODY_ELSE = {
    "in a list that is kept": attend("states = [x]\nstates.append(gate)\nself.states = states"),
    "in a list that was kept before": attend("states = [x]\nself.states = states\nstates.append(gate)"),
    "in a list that is another's": "KEPT = []\n" + attend("states = KEPT\nstates.append(gate)"),
    "in a list that may be another's": "KEPT = []\n"
    + attend("states = []\nif self.training:\n    states = KEPT\nstates.append(gate)"),
    "in a list that goes to another": attend(
        "states = [x]\nstates.append(gate)\nself.log.extend(states)", "self.log = []"
    ),
    "in a list in a list": attend("states = [x]\nstates.append(gate)\nself.log.append(states)", "self.log = []"),
    "in a list that a function inside sees": attend("states = [x]\nstates.append(gate)\nself.read = lambda: states[1]"),
    "in a list for a function that keeps it": "KEPT = []\ndef pick(states):\n    KEPT.append(states)\n"
    "    return states[1]\n" + attend("states = [x]\nstates.append(gate)\ngate = pick(states)"),
    "in a list for a function that keeps an item": "KEPT = []\ndef pick(states):\n    KEPT.append(states[1])\n"
    "    return states[1]\n" + attend("states = [x]\nstates.append(gate)\ngate = pick(states)"),
    "on self": attend("self.last = gate"),
    "a view on self": attend("self.last = gate.view(-1)"),
    "a part on self": attend("self.last = gate[:, 0]"),
    "detached on self": attend("self.last = gate.detach()"),
    "in a tuple on self": attend("self.last = (gate, 1)"),
    "by two names": attend("self.last = other = gate"),
    "in a pair of targets": attend("self.last, other = gate, 1"),
    "one of two": attend("self.last = gate if self.training else None"),
    "through another name": attend("seen = gate\nself.last = seen"),
    "by setattr": attend("setattr(self, 'last', gate)"),
    "by object.__setattr__": attend("object.__setattr__(self, 'last', gate)"),
    "in __dict__": attend("self.__dict__['last'] = gate"),
    "as a buffer": attend("self.register_buffer('last', gate)"),
    "in a list": attend("self.log.append(gate)", "self.log = []"),
    "a view in a list": attend("self.log.append(gate.detach())", "self.log = []"),
    "a list in a list": attend("self.log += [gate]", "self.log = []"),
    "in a dict": attend("self.log['gate'] = gate", "self.log = {}"),
    "by update": attend("self.log.update(gate=gate)", "self.log = {}"),
    "in a default": attend("cache.append(gate)").replace("forward(self, x)", "forward(self, x, cache=[])"),
    "in a global": "LAST = None\n" + attend("global LAST\nLAST = gate"),
    "in a global list": "LOG = []\n" + attend("LOG.append(gate)"),
    "in a loop": attend("for part in (gate,):\n    self.log.append(part)", "self.log = []"),
    "in a comprehension": attend("[self.log.append(part) for part in [gate]]", "self.log = []"),
    "by a method": attend("self.note(gate)") + "\n    def note(self, t):\n        self.last = t\n",
    "by a method in a test": attend("if self.note(gate):\n    pass")
    + "\n    def note(self, t):\n        self.last = t\n",
    "by a method, starred": attend("self.note(*[gate])") + "\n    def note(self, *t):\n        self.last = t\n",
    "by a method, by name": attend("self.note(t=gate)") + "\n    def note(self, **t):\n        self.last = t\n",
    "by a method's method": attend("self.note(gate)")
    + "\n    def note(self, t):\n        self.deeper(t)\n\n    def deeper(self, t):\n        self.last = t\n",
    "by a function": "LOG = []\n\ndef remember(t):\n    LOG.append(t)\n" + attend("remember(gate)"),
    "by a function that hands it back": "LOG = []\n\ndef remember(t):\n    LOG.append(t)\n    return t\n"
    + attend("gate = remember(gate)"),
    "by an object": "class Box:\n    def __init__(self, t):\n        self.t = t\n" + attend("self.box = Box(gate)"),
    "by a closure": attend("self.peek = lambda: gate"),
    "by an inner function": attend("def peek():\n    return gate\nself.peek = peek"),
    "in a finally": attend().replace(
        "        return gate * x, gate",
        "        try:\n            return gate * x, gate\n        finally:\n            self.last = gate",
    ),
    "by __call__": attend()
    + "\n    def __call__(self, x):\n        out = super().__call__(x)\n        self.last = out\n        return out\n",
    "by a cache": "from functools import lru_cache\n"
    + attend().replace("    def forward", "    @lru_cache\n    def forward"),
    "by a decorator": "LOG = []\n\ndef logged(f):\n    def run(*args):\n        out = f(*args)\n"
    "        LOG.append(out)\n        return out\n    return run\n\n"
    + attend().replace("    def forward", "    @logged\n    def forward"),
    "its argument": attend().replace("return gate * x, gate", "return gate * x, x"),
    "a view of its argument": attend().replace("return gate * x, gate", "return gate * x, x.view(-1, 3)"),
    "a buffer": attend("", "self.register_buffer('table', torch.ones(4, 3))").replace(
        "return gate * x, gate", "return gate * x, self.table"
    ),
    "a view of a buffer": attend(
        "rows = self.table[: len(x)]", "self.register_buffer('table', torch.ones(4, 3))"
    ).replace("return gate * x, gate", "return gate * x, rows"),
    "a cache on self": attend(
        "if self.cached is None:\n    self.cached = gate\ngate = self.cached", "self.cached = None"
    ),
    "by a hook": attend() + "\nLOG = []\n\ndef keep(m, i, o):\n    LOG.append(o)\n\ndef setup(model):\n"
    "    model.attend.register_forward_hook(keep)\n",
    "by a lambda hook": attend() + "\nLOG = []\n\ndef setup(model):\n"
    "    model.attend.register_forward_hook(lambda m, i, o: LOG.append(o))\n",
    "by a made hook": attend() + "\nLOG = {}\n\ndef keep(name):\n    def hook(m, i, o):\n        LOG[name] = o\n"
    "    return hook\n\ndef setup(model):\n    model.attend.register_forward_hook(keep('attend'))\n",
    "by a hook on all modules": attend() + "\nLOG = []\n\ndef keep(m, i, o):\n    LOG.append(o)\n\ndef setup(model):\n"
    "    nn.modules.module.register_module_forward_hook(keep)\n",
    "by a submodule": """
class Inner(nn.Module):
    def forward(self, x):
        self.last = x.exp()
        y = self.last
        return y


class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        gate = self.inner(x)
        return gate * x, gate
""",
    "by a submodule that gets it": """
class Inner(nn.Module):
    def forward(self, x):
        self.last = x
        return x + 1


class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        gate = x.exp()
        return self.inner(gate) * x, gate
""",
    "by a submodule of a submodule": """
class Innermost(nn.Module):
    def forward(self, x):
        y = x.exp()
        self.last = y
        return y


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.innermost = Innermost()

    def forward(self, x):
        return self.innermost(x)


class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        gate = self.inner(x)
        return gate * x, gate
""",
}


def answer(layers: str) -> str:
    model = "from torch import nn\nfrom layers import Attend\n" + MODEL.format(setup="pass", copy="pass")
    layers = "import torch\nfrom torch import nn\n" + layers
    files = Files({"model.py": model, "layers.py": layers}, may_read=False)
    code = files.code("model.py")
    assert code is not None and files.code("layers.py") is not None
    write = next(
        node
        for node in ast.walk(code.tree)
        if ast.unparse(node).startswith("gate[:, 0]") and isinstance(node, ast.stmt)
    )
    return may_rebind(files, code, write, "gate")


def everything_seen(layers: str, copy: bool) -> list[float]:
    """The result, and all numbers of all tensors that the program can still reach, in order."""
    model = MODEL.format(setup="pass", copy="gate = gate.clone()" if copy else "pass")
    names: dict[str, object] = {"torch": torch, "nn": torch.nn}
    torch.manual_seed(0)
    exec(compile(layers + model, "program", "exec"), names)
    built = names["Model"]()  # type: ignore[operator]
    if "setup" in names:
        names["setup"](built)  # type: ignore[operator]
    try:
        with torch.no_grad():
            result = built(torch.arange(12.0).reshape(4, 3) / 10)
        del built._forward_hooks
        found: list[torch.Tensor] = [result]
        _reach(built, found, set())
        _reach({name: value for name, value in names.items() if name.isupper()}, found, set())
        forward = type(built.attend).forward
        _reach(gc.get_referents(forward) if hasattr(forward, "cache_info") else forward.__defaults__, found, set())
    finally:
        torch.nn.modules.module._global_forward_hooks.clear()
    return [number for tensor in found for number in tensor.flatten().tolist()]


def _reach(thing: object, found: list[torch.Tensor], seen: set[int]) -> None:
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, torch.Tensor):
        found.append(thing)
    elif isinstance(thing, dict):
        for value in thing.values():
            _reach(value, found, seen)
    elif isinstance(thing, list | tuple | set):
        for value in thing:
            _reach(value, found, seen)
    elif callable(thing) and getattr(thing, "__closure__", None):
        for cell in thing.__closure__:
            _reach(cell.cell_contents, found, seen)
    elif hasattr(thing, "__dict__") and not isinstance(thing, type):
        _reach(vars(thing), found, seen)


@pytest.mark.parametrize("case", NOBODY_ELSE)
def test_a_copy_is_safe(case: str) -> None:
    layers = "import torch\nfrom torch import nn\n" + NOBODY_ELSE[case]
    assert everything_seen(layers, copy=True) == everything_seen(layers, copy=False)
    assert answer(layers) == "yes"


@pytest.mark.parametrize("case", SOMEBODY_ELSE)
def test_a_copy_is_not_safe(case: str) -> None:
    layers = "import torch\nfrom torch import nn\n" + SOMEBODY_ELSE[case]
    assert everything_seen(layers, copy=True) != everything_seen(layers, copy=False)
    assert answer(layers) != "yes"
