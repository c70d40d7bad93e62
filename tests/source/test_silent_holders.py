"""Tensors that two hold, of which one is written and the other read: what the source shows, beside what is fine."""

from __future__ import annotations

import textwrap

import pytest

from outplace.source.analysis import check_file
from outplace.source.project import Project

START = """
import copy
import dataclasses
import numpy as np
import torch
from torch import nn

net = nn.Linear(3, 3)
"""


def found(body: str) -> list[str]:
    """The text of each line with a finding, all of them warnings; without those that depend on a hypothesis."""
    source = START + textwrap.dedent(body)
    findings = [found for found in check_file("program.py", source, Project()).findings if not found.hypothesis]
    assert all(finding.severity == "warning" for finding in findings)
    return [source.splitlines()[finding.site.line - 1].strip() for finding in findings]


DICT = "old = {'a': torch.zeros(3), 'b': torch.ones(3)}\n"
LIST = "old = [torch.zeros(3), torch.ones(3)]\n"


@pytest.mark.parametrize(
    "made",
    [
        "dict(old)",
        "old.copy()",
        "{**old}",
        "{**old, 'c': torch.ones(3)}",
        "copy.copy(old)",
        "{key: value for key, value in old.items()}",
        "dict(old.items())",
    ],
)
def test_an_item_of_a_dict_that_was_copied(made):
    update = "new['a'] += 1"
    assert found(f"{DICT}new = {made}\n{update}\nprint(old['a'].sum())") == [update]
    method = "new['a'].mul_(2)"
    assert found(f"{DICT}new = {made}\n{method}\nprint(torch.stack(list(old.values())))") == [method]


@pytest.mark.parametrize("made", ["list(old)", "old.copy()", "old[:]", "[*old]", "copy.copy(old)", "[x for x in old]"])
def test_an_item_of_a_list_that_was_copied(made):
    update = "new[0] -= 1"
    assert found(f"{LIST}new = {made}\n{update}\nprint(old[0].sum())") == [update]
    assert found(f"{LIST}new = {made}\n{update}\nprint(torch.stack(old))") == [update]
    assert found(f"{LIST}new = {made}\n{update}\nfor x in old:\n    print(x.sum())") == [update]


def test_the_copy_is_read_after_an_update_of_the_original():
    assert found(f"{DICT}kept = dict(old)\nold['a'] += 1\nprint((old['a'] - kept['a']).norm())") == ["old['a'] += 1"]


@pytest.mark.parametrize(
    "body",
    [
        f"{DICT}new = dict(old)\nnew['a'] += 1\nprint(new['a'].sum())",
        f"{DICT}new = dict(old)\nnew['a'] += 1\nprint(old['b'].sum(), old['a'].shape, len(old), list(old.keys()))",
        f"{DICT}new = dict(old)\nnew['a'] = new['a'] + 1\nprint(old['a'].sum())",
        f"{DICT}new = dict(old)\nnew['a'] = torch.ones(3)\nnew['a'] += 1\nprint(old['a'].sum())",
        f"{DICT}new = {{key: value.clone() for key, value in old.items()}}\nnew['a'] += 1\nprint(old['a'].sum())",
        f"{DICT}new = copy.deepcopy(old)\nnew['a'] += 1\nprint(old['a'].sum())",
        f"{DICT}new = dict(old)\nnew['a'] += 1\nold['a'] = torch.ones(3)\nprint(old['a'].sum())",
        f"{DICT}new = dict(old)\nnew['a'] += 1\nold['a'].zero_()\nprint(old['a'].sum())",
        f"{DICT}new = old\nnew['a'] += 1\nprint(old['a'].sum())",
        f"{LIST}for x in list(old):\n    x += 1\nprint(old[0].sum())",
        f"{LIST}todo = list(old)\ntodo[0].add_(1)\nprint(old[0].sum())",
        "counts = {'a': 1}\nnew = dict(counts)\nnew['a'] += 1\nprint(net(torch.ones(3) * counts['a']))",
        "old = list(net.parameters())\nnew = list(old)\nwith torch.no_grad():\n    new[0] -= 1\nprint(old[0].sum())",
    ],
    ids=[
        "only the copy is read", "other items and shapes are", "out of place", "an item of its own", "clones",
        "a deep copy", "assigned since", "filled since", "no copy", "gone through", "a list of work", "numbers",
        "parameters",
    ],
)  # fmt: skip
def test_copies_of_containers_that_are_fine(body):
    assert not found(body)


STATE = """
@dataclasses.dataclass
class State:
    position: torch.Tensor
    speed: torch.Tensor

state = State(torch.zeros(3), torch.ones(3))
"""


@pytest.mark.parametrize("made", ["copy.copy(state)", "dataclasses.replace(state, speed=2 * state.speed)"])
def test_a_field_of_a_record_that_was_copied(made):
    update = "new.position += new.speed"
    assert found(f"{STATE}\nnew = {made}\n{update}\nprint(new.position - state.position)") == [update]
    assert not found(f"{STATE}\nnew = {made}\nnew.position = new.position + new.speed\nprint(state.position.sum())")
    assert not found(f"{STATE}\nnew = {made}\n{update}\nprint(new.position.sum())")


ATTACK = """
def attack(images, labels):
    adversarial = {made}
    optimizer = torch.optim.Adam([adversarial])
    for _ in range(3):
        distance = (adversarial - {clean}).square().sum()
        loss = distance + (net(adversarial) - labels).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return adversarial.detach()
"""


@pytest.mark.parametrize(
    "made", ["images.detach().requires_grad_()", "nn.Parameter(images)", "nn.Parameter(images.data)"]
)
def test_a_leaf_in_the_memory_of_what_it_was_made_of(made):
    assert found(ATTACK.format(made=made, clean="images")) == ["optimizer.step()"]
    assert not found(ATTACK.format(made=made, clean="labels"))


@pytest.mark.parametrize("made", ["images.detach().clone().requires_grad_()", "nn.Parameter(images.clone())"])
def test_a_leaf_of_a_copy(made):
    assert not found(ATTACK.format(made=made, clean="images"))


BY_HAND = """
def attack(images):
    adversarial = images.detach().requires_grad_()
    for _ in range(3):
        gradient, = torch.autograd.grad(net(adversarial).sum(), adversarial)
        with torch.no_grad():
            {update}
    return {result}
"""


@pytest.mark.parametrize("update", ["adversarial += gradient.sign()", "adversarial.data.add_(gradient)"])
def test_a_leaf_that_is_changed_by_hand(update):
    assert found(BY_HAND.format(update=update, result="adversarial - images")) == [update]
    assert not found(BY_HAND.format(update=update, result="adversarial"))
    assert not found(BY_HAND.format(update=update, result="adversarial, images.shape"))


def test_a_leaf_that_is_moved_away():
    update = "adversarial.data = adversarial.data + gradient"
    assert not found(BY_HAND.format(update=update, result="adversarial - images"))


def test_what_a_loader_hands_out_next_lies_elsewhere():
    body = """
    data = torch.utils.data.TensorDataset(torch.randn(8, 3), torch.randn(8, 3))
    for x, y in torch.utils.data.DataLoader(data):
        before = net(x).sum()
        z = x.detach().requires_grad_()
        optimizer = torch.optim.SGD([z], lr=0.1)
        (net(z) - y).square().sum().backward()
        optimizer.step()
        print(before, net(z))
    """
    assert not found(body)


FUSION = """
class Fusion(nn.Module):
    def __init__(self, count=2):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(count))

    def forward(self, x):
        branches = [layer(x) for layer in self.layers]
        fused = []
        for i in range(len(branches)):
            total = {start}
            total += branches[1]
            {kept}
        return fused

sum(one.sum() for one in Fusion()(torch.randn(4, 3))).backward()
"""


@pytest.mark.parametrize(
    ("start", "kept", "wrong"),
    [
        ("branches[0] if i == 0 else 2 * branches[0]", "fused.append(total)", True),
        ("branches[0] if i == 0 else torch.zeros(4, 3)", "fused.append(total)", False),
        ("branches[0].clone() if i == 0 else 2 * branches[0]", "fused.append(total)", False),
        ("branches[0] if i == 0 else 2 * branches[0]", "branches[0] = total", False),
    ],
    ids=["read again", "not read again", "a clone", "put back"],
)
def test_a_name_that_is_an_element_in_one_round(start, kept, wrong):
    assert found(FUSION.format(start=start, kept=kept)) == (["total += branches[1]"] if wrong else [])


def test_a_name_that_is_an_argument_on_one_path():
    body = """
    class Block(nn.Module):
        def __init__(self, shortcut):
            super().__init__()
            self.layer, self.shortcut = nn.Linear(3, 3), nn.Linear(3, 3) if shortcut else None

        def forward(self, x):
            same = x
            if self.shortcut is not None:
                same = self.shortcut(x)
            same += self.layer(x).detach()
            return same

    x = torch.randn(4, 3)
    {use}
    """
    twice = "print(Block(True)(x) + Block(False)(x) + x)"
    assert found(textwrap.dedent(body).format(use=twice)) == ["same += self.layer(x).detach()"]
    assert not found(textwrap.dedent(body).format(use="x = Block(True)(x)\nx = Block(False)(x)\nprint(x.sum())"))


@pytest.mark.parametrize(
    "body",
    [
        """
        sums = [torch.zeros(3), torch.zeros(3)]
        for i in range(5):
            total = sums[i % 2]
            total += torch.randn(3)
        print(torch.stack(sums))
        """,
        """
        sums = {}
        for i in range(5):
            total = sums[i % 2] if i % 2 in sums else torch.zeros(3)
            total += i
            sums[i % 2] = total
        print(torch.stack(list(sums.values())))
        """,
        """
        class Average:
            def __init__(self):
                self.value = None

            def add(self, x):
                value = self.value if self.value is not None else torch.zeros(3)
                value *= 0.9
                value += x
                self.value = value

        average = Average()
        for _ in range(3):
            average.add(torch.randn(3))
            print(average.value.sum())
        """,
        """
        first, second = torch.zeros(3), torch.ones(3)
        here, there = first, second
        for _ in range(3):
            there += 2 * here
            here, there = there, here
        print(first + second)
        """,
        """
        def scale(x):
            x *= 2
            return x

        buffer = torch.ones(3)
        scale(buffer)
        print(scale(net(buffer).detach()) + buffer)
        """,
    ],
    ids=["a handle", "made where it is missing", "an attribute", "two buffers", "a function that writes"],
)
def test_names_that_are_meant_to_be_one(body):
    assert not found(body)


@pytest.mark.parametrize("update", ["x -= 0.1 * x", "x.sub_(0.1 * x)"])
@pytest.mark.parametrize("distance", ["(x - before).norm()", "torch.dist(x, before)", "torch.allclose(before, x)"])
def test_a_tensor_held_against_itself(update, distance):
    loop = f"x = torch.ones(3)\nfor _ in range(9):\n    before = x{{end}}\n    {update}\n    print({distance})"
    assert found(loop.format(end="")) == [update]
    assert not found(loop.format(end=".clone()"))


def test_a_weight_held_against_itself_after_a_step():
    body = """
    w = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    for _ in range(3):
        before = w{end}
        (w - 1).square().sum().backward()
        optimizer.step()
        print((w - before).norm())
    """
    assert found(body.format(end="")) == ["optimizer.step()"]
    assert not found(body.format(end=".detach().clone()"))
    assert not found(body.format(end="").replace("(w - before).norm()", "before.norm()"))


WINDOWS = """
class History:
    def __init__(self):
        self.prices = np.ones((40, 3)).astype(np.float32)

    def window(self, end):
        return torch.from_numpy({part})

def standardised(window):
    {update}
    return window

history = History()
for epoch in range({epochs}):
    for end in range(8, 40):
        window = standardised(history.window(end))
        {between}
        print({use})
"""
PART, UPDATE, USE = "self.prices[end - 8 : end]", "window -= window.mean()", "net(window)"


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, True),
        ({"update": "window.div_(window.std())"}, True),
        ({"part": "self.prices"}, True),
        ({"part": f"{PART}.copy()"}, False),
        ({"update": "window = window - window.mean()"}, False),
        ({"part": "self.prices[end]"}, True),
        ({"part": "self.prices[end]", "epochs": 1}, False),
        ({"use": "history.prices.mean()"}, False),
        ({"update": "window += 1"}, False),
        ({"between": "history.prices[:] = 1"}, False),
        ({"between": "refill(history.prices)"}, False),
    ],
    ids=[
        "again", "a method", "the whole array", "a copy", "out of place", "rows", "each row once", "preprocessed",
        "a sum", "filled again", "perhaps filled again",
    ],
)  # fmt: skip
def test_parts_of_an_array_that_are_taken_again(changes, wrong):
    plain = {"part": PART, "update": UPDATE, "use": USE, "epochs": 3, "between": "pass"}
    assert found(WINDOWS.format(**{**plain, **changes})) == ([changes.get("update", UPDATE)] if wrong else [])
