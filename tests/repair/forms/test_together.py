"""Bugs of separate functions are mended together: as each would be by itself, with a few looks at the file."""

from __future__ import annotations

from outplace.repair.drive.from_source import Repaired, repair
from outplace.source.analysis import check_file
from outplace.source.project import Project

HEAD = "import torch\nfrom torch import nn\n"

FORMS = [
    """

class Net{n}(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        h = torch.sigmoid(self.fc(x))
        h += {n}
        h *= 2
        return h
""",
    """

def train{n}():
    w = torch.randn(3, {n} + 1, requires_grad=True)
    y = w.exp()
    y[0] = {n}
    y.sum().backward()
""",
    """

def refused{n}():
    w = torch.randn(3, requires_grad=True)
    w.mul_({n})
    w.sum().backward()
""",
    """

def handed_on{n}(given):
    w = torch.randn(3, requires_grad=True)
    y = w.exp()
    given.append(y)
    y += {n}
    y.sum().backward()
""",
]


def _repaired(text: str) -> tuple[Repaired, int]:
    looks = 0

    def check(path, text, elsewhere=None):
        nonlocal looks
        looks += 1
        return check_file(path, text, Project()).findings

    return repair("many.py", text, check, lambda finding: True), looks


def _said(repairs: list[Repaired]) -> list[tuple[str, str]]:
    return sorted((finding.site.text, candidate.title) for one in repairs for finding, candidate in one.done)


def test_as_each_by_itself() -> None:
    parts = [form.format(n=number) for number in range(1, 9) for form in FORMS]
    alone = [_repaired(HEAD + part)[0] for part in parts]
    assert sum(len(one.done) for one in alone) > len(parts)  # some have two bugs
    together, looks = _repaired(HEAD + "".join(parts))
    assert together.text == HEAD + "".join(one.text.removeprefix(HEAD) for one in alone)
    assert _said([together]) == _said(alone)
    assert len(together.left) == sum(len(one.left) for one in alone)
    assert looks < len(parts)


def test_one_whose_first_remedy_is_not_enough_does_not_keep_the_others() -> None:
    another = """

def another(make):
    w = torch.randn(3, requires_grad=True)
    y = w.exp()
    z = make(y)
    for _ in range(3):
        y[0] += z[0]
        z = y * z
    z.sum().backward()
"""
    parts = [FORMS[1].format(n=number) for number in range(1, 17)]
    parts.insert(8, another)
    alone = [_repaired(HEAD + part) for part in parts]
    assert [looks > 2 for _, looks in alone] == [part is another for part in parts]
    together, looks = _repaired(HEAD + "".join(parts))
    assert together.text == HEAD + "".join(one.text.removeprefix(HEAD) for one, _ in alone)
    assert looks < len(parts)
