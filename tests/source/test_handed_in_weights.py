"""Weights of networks that are handed in, or were built by unknown code, beside what PyTorch says of the writes.

A write to such a weight is refused wherever grad mode is on, also in functions that nobody trains through.
"""

import pytest
from torch import nn

from outplace.source.analysis import check_file
from outplace.source.project import Project

HEAD = "import torch\nfrom torch import nn\n\n"
WRONG = {
    "a network that is asked for its modules": (
        "def load_bias(model):\n    for m in model.modules():\n        if isinstance(m, nn.Linear):\n"
        "            m.bias.fill_(1)  # here\n"
    ),
    "a part of a network": "def reset(model):\n    model.eval()\n    model.head.weight[0] = 0  # here\n",
    "an item of a part": "def reset(model):\n    model.train()\n    model.blocks[1].weight[0] *= 2  # here\n",
    "all items of a part": (
        "def reset(model):\n    model.train()\n    for block in model.blocks:\n        block.bias += 1  # here\n"
    ),
    "a module by its annotation": "def shift(model: nn.Module):\n    model.head.bias -= 1  # here\n",
    "a view": (
        "def init_biases(model: nn.Module):\n    for block in model.blocks:\n        b = block.bias.view(2, -1)\n"
        "        b[:, 0] += 3  # here\n        block.bias = nn.Parameter(b.view(-1))\n"
    ),
    "in a container": (
        "class Net(nn.Module):\n    def __init__(self, model):\n        super().__init__()\n"
        "        self.parts = nn.Sequential(*model.children())\n\n    def init_weights(self):\n"
        "        self.parts[1].bias.zero_()  # here\n\ndef run(model):\n    Net(model).init_weights()\n"
    ),
    "one of a list of which not all is known": (
        "class Net(nn.Module):\n    def __init__(self, kinds, place):\n        super().__init__()\n        parts = []\n"
        "        for kind, sizes in kinds:\n            made = kind(*sizes)\n            parts.append(made)\n"
        "        self.parts, self.place = nn.Sequential(*parts), place\n\n    def init_weights(self):\n"
        "        b = self.parts[self.place].bias.view(2, -1)\n        b[:, 0] += 3  # here\n\n"
        "def run(model):\n    Net([(nn.Linear, (4, 4)), (nn.Linear, (4, 2))], 1).init_weights()\n"
    ),
    "reached by the program": (
        "def reset(model):\n    model.eval()\n    model.head.weight[0] = 0  # here\n\n"
        "def run(model):\n    reset(model)\n\nif __name__ == '__main__':\n    run(torch.load('model.pt'))\n"
    ),
    "in a container, all": (
        "class Net(nn.Module):\n    def __init__(self, model):\n        super().__init__()\n"
        "        self.parts = nn.ModuleList(list(model.blocks))\n\n    def init_weights(self):\n"
        "        for part in self.parts:\n            part.weight.mul_(2)  # here\n\n"
        "def run(model):\n    Net(model).init_weights()\n"
    ),
}
RIGHT = {
    "no_grad": "@torch.no_grad()\ndef reset(model):\n    model.eval()\n    model.head.weight[0] = 0\n",
    "a block under no_grad": (
        "def reset(model):\n    model.eval()\n    with torch.no_grad():\n        model.head.weight[0] = 0\n"
    ),
    "called under no_grad": (
        "def reset(model):\n    model.eval()\n    model.head.weight[0] = 0\n\n"
        "def run(model):\n    with torch.no_grad():\n        reset(model)\n"
    ),
    "applied under no_grad": (
        "def init_head(m):\n    if isinstance(m, nn.Linear):\n        m.weight[0] = 0\n\n"
        "@torch.no_grad()\ndef run(model):\n    model.apply(init_head)\n"
    ),
    "frozen": "def reset(model):\n    model.requires_grad_(False)\n    model.eval()\n    model.head.weight[0] = 0\n",
    "frozen one by one": (
        "def reset(model):\n    for p in model.parameters():\n        p.requires_grad = False\n"
        "    model.head.weight[0] = 0\n"
    ),
    "one weight is frozen": (
        "def reset(model: nn.Module):\n    model.head.weight.requires_grad = False\n    model.head.weight[0] = 0\n"
    ),
    "a copy": "def reset(model: nn.Module):\n    w = model.head.weight.clone()\n    w[0] = 0\n    return w\n",
    "detached": "def reset(model: nn.Module):\n    model.head.weight.detach()[0] = 0\n",
    "data": "def reset(model: nn.Module):\n    model.head.weight.data[0] = 0\n    model.head.bias.data.zero_()\n",
    "initialised": "def init_head(model: nn.Module):\n    nn.init.zeros_(model.head.bias)\n",
    "replaced": "def reset(model: nn.Module):\n    model.head.weight = nn.Parameter(torch.zeros(4, 4))\n",
    "read": "def norm(model: nn.Module):\n    total = model.head.weight.sum()\n    total += 1\n    return total\n",
    "no network": (
        "class Sample:\n    weight = bias = 1.0\n\ndef scale(sample):\n    sample.weight *= 2\n    sample.bias += 1\n\n"
        "def run(model):\n    scale(Sample())\n"
    ),
}


class _Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.head = nn.Linear(4, 4)

    def children(self):  # type: ignore[no-untyped-def]
        return iter((*self.blocks, self.head))


def _run(source: str) -> None:
    names: dict[str, object] = {}
    exec(compile(source, "a.py", "exec"), names)
    last = [value for name, value in names.items() if callable(value) and name not in ("torch", "nn")][-1]
    last(_Network())  # type: ignore[operator]


@pytest.mark.parametrize("name", WRONG)
def test_writes_that_are_refused(name: str) -> None:
    source = HEAD + WRONG[name]
    with pytest.raises(RuntimeError, match=r"leaf Variable that requires grad"):
        _run(source)
    findings = check_file("a.py", source, Project()).findings
    assert findings, "nothing was found"
    lines = {line for line, text in enumerate(source.splitlines(), 1) if "# here" in text}
    assert {finding.site.line for finding in findings} == lines
    assert all(finding.severity == "warning" and finding.hypothesis == "it is a parameter" for finding in findings)


@pytest.mark.parametrize("name", RIGHT)
def test_writes_that_are_allowed(name: str) -> None:
    source = HEAD + RIGHT[name]
    _run(source)
    assert not check_file("a.py", source, Project()).findings
