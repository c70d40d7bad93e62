"""Random small tensor programs: views, aliases, masks, loops, functions, containers; some legal, some not."""

from __future__ import annotations

import random
import re

_HEAD = """import torch
import torch.nn.functional as F


class Box:
    pass


x = torch.linspace(0.213, 1.371, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
w = torch.linspace(1.117, 0.429, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
leaves = [x, w]
"""
_UNARY = [
    "{a}.exp()", "{a}.sigmoid()", "{a} * 2", "{a}.tanh()", "{a} + 1", "torch.sqrt({a} * {a} + 1)", "{a}.clone()",
    "{a}.sin()", "-{a}", "{a}.pow(2)", "torch.softmax({a}, 1)", "{a}.cumsum(1)", "F.gelu({a})",
]  # fmt: skip
_BINARY = [
    "{a} * {b}", "{a} + {b}", "{a} - {b} * 2", "{a} / ({b} * {b} + 1)", "torch.mul({a}, {b})", "{a} @ {b}.T @ {a}",
    "torch.where({a} > {b}, {a}, {b})", "torch.cat([{a}[:1], {b}[1:]])",
]  # fmt: skip
_VIEW = [
    "{a}", "{a}.view(4, 3).view(3, 4)", "{a}[:]", "{a}.T.T", "{a}.detach()", "{a}.reshape(-1).view(3, 4)",
    "{a}[:1].clone().expand(3, 4)", "{a}.narrow(0, 0, 3)", "{a}.contiguous()", "{a}.unsqueeze(0).squeeze(0)",
]  # fmt: skip
# What is expanded has memory of its own: a write that reads overlapping memory has no defined result.
_WRITE = [
    "{a} += {b}", "{a} *= {b}", "{a} -= 0.5", "{a} /= {b} * {b} + 1", "{a} **= 2", "{a} -= {b} if True else 1",
    "{a}.mul_({b})", "{a}.add_(1).mul_(2)", "{a}.sub_({b}, alpha=2)", "{a}.sigmoid_()", "{a}.tanh_()", "{a}.neg_()",
    "{a}.exp_()", "{a}.pow_(2)", "{a}.lerp_({b}, 0.3)", "{a}.addcmul_({b}, {b}, value=0.5)", "{a}.cumsum_(1)",
    "{a}.tril_()", "{a}.clamp_(0.1, 0.9)", "{a}.zero_()", "{a}.copy_({b})", "{a}.fill_(0.4)", "{a}.fill_diagonal_(0.1)",
    "{a}.masked_fill_({b} > 0.8, 0.3)", "{a}.index_fill_(1, torch.tensor([1]), 0.3)",
    "{a}.index_add_(0, torch.tensor([0, 2]), x[:2])", "{a}.data.mul_(1.5)", "torch.relu_({a})",
    "F.relu({a}, inplace=True)", "{a} = F.leaky_relu({a}, 0.2, True)", "F.elu({a}, inplace=True)",
    "torch.exp({a}, out={a})", "torch.mul({a}, {b}, out={a})",
    "{a}[0] = 0.5", "{a}[:, 1] = {b}[:, 2]", "{a}[{a} > 1] = 0.25", "{a}[1:] += {b}[:2]", "{a}[..., 0].mul_(3)",
    "{a}[{b} > 0.8] = 0.25", "{a}[{a} > 0.7] *= 0.5", "{a}[{a} > 0.7] = {b}[{a} > 0.7]", "{a}[[0, 2]] = 0.5",
    "{a}[torch.tensor([0, 2])] *= 2", "{a}[:, [1, 3]] = {b}[:, [0, 2]]", "{a}[-1, 1:3] -= 0.5", "{a}[None, 0] = 0.2",
    "{a}[0] = {a}[1] * 2", "{a}[:, 0] += {a}[:, 1]", "{a}.T[1] = 0.3", "{a}.view(-1)[2:5] = {b}.view(-1)[:3]",
    "{a}[torch.tensor([0, 2])] = {b}[:2].exp()", "{a}[{a}.sin() > 0.5] += 1", "{a}[({a} > 0.3) & ({a} < {b})] = 0.1",
    "m = {a} > 0.6\n{a}[m] = {b}[m] * 2", "m = {b} > 0.6\n{a}[m] = {b}[m] - {a}[m]",
    "if True: {a}[0] = 0.5", "for row in {a}:\n    row.mul_(2)", "for column in {a}.unbind(1):\n    column.add_(1)",
    "for t in range(1, 3):\n    {a}[t] = {a}[t - 1] * {b}[t]", "for t in range(3):\n    {a}[t] = torch.sin({a}[t])",
    "with torch.no_grad():\n    part = {a}[0]\npart.mul_(2)",
]  # fmt: skip
_ROWS = ["{r} += 1", "{r}.mul_(2)", "{r}[1] = 0.3", "{a}[1] = {r}", "{a}[2] += {r}", "{r}.sigmoid_()", "{r} *= {r}"]
_HALVES = ["{p}.mul_({q})", "{p} += 1", "{q}.tanh_()", "{p}[:, 0] = {q}[:, 1]", "{p}.sigmoid_().mul_(2)"]
_FUNCTIONS = [
    "def scale(t):\n    t *= 2\n    return t\n",
    "def shift(t, s):\n    t.add_(s)\n",
    "def same(t):\n    return t\n",
    "def mask(t):\n    t[t > 1] = 1.0\n    return t * 3\n",
    "def first(t):\n    return t[0]\n",
    "def turned(t):\n    other = t.view(4, 3)\n    again = other.view(3, 4)\n    return again\n",
    "def squashed(t, s):\n    u = torch.sigmoid(t)\n    u *= s\n    return u\n",
]
_CALLS = [
    "{n} = scale({a})", "scale({a})", "shift({a}, {b})", "{n} = same({a})", "{n} = mask({a})", "{a} = scale({a})",
    "first({a}).mul_(2)", "{n} = squashed({a}, {b})", "{n} = turned({a})", "shift({a}[1:], {b}[1:])",
]  # fmt: skip
_HELD = ["box.h = {a}", "box.h += 1", "box.h.mul_({a})", "{n} = box.h", "{n} = box.h * {a}"]
_KEPT = ['d["k"] = {a}', 'd["k"] *= 2', '{n} = d["k"]', 'd["k"][0] = 0.5', '{n} = d["k"] * {a}']


class _Writer:
    """Writes one program, choice by choice."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.names = ["h0"]
        if self.choose.random() < 0.1:
            self.names.append("w")
        self.rows: list[str] = []
        self.halves: list[tuple[str, str]] = []
        self.uses: set[str] = set()
        self.count = 0

    def pick(self) -> str:
        return self.choose.choice(self.names)

    def fresh(self) -> str:
        self.count += 1
        return f"h{self.count}"

    def filled(self, template: str) -> list[str]:
        new = self.fresh()
        rows = self.choose.choice(self.rows or [""])
        one, other = self.choose.choice(self.halves or [("", "")])
        text = template.format(n=new, a=self.pick(), b=self.pick(), r=rows, p=one, q=other)
        if "{n}" in template:
            self.names.append(new)
        return text.split("\n")

    def statement(self, deep: bool) -> list[str]:
        kind = self.choose.random()
        if kind < 0.25:
            return self.filled("{n} = " + self.choose.choice(_UNARY + _BINARY))
        if kind < 0.35:
            return self.filled("{n} = " + self.choose.choice(_VIEW))
        if kind < 0.65:
            return self.filled(self.choose.choice(_WRITE))
        if kind < 0.72:
            return self.filled(self.choose.choice(_CALLS))
        if kind < 0.82:
            return self.part(deep)
        if deep:
            return ["pass"]
        if kind < 0.9:
            return self.block()
        if kind < 0.94:
            self.uses.add("kept")
            return [f"kept.append({self.pick()})"]
        held, name = self.choose.choice([(_HELD, "box"), (_KEPT, "d")])
        self.uses.add(name)
        return self.filled(self.choose.choice(held))

    def part(self, deep: bool) -> list[str]:
        """A row or two halves of a tensor, or a use of what there is of them."""
        if self.rows and self.choose.random() < 0.5:
            return self.filled(self.choose.choice(_ROWS))
        if self.halves and self.choose.random() < 0.6:
            return self.filled(self.choose.choice(_HALVES))
        if deep:
            return ["pass"]
        new = self.fresh()
        if self.choose.random() < 0.5:
            self.rows.append(f"r{new}")
            return [f"r{new} = {self.pick()}[{self.choose.choice(['0', '1', '-1'])}]"]
        self.halves.append((f"p{new}", f"q{new}"))
        way = self.choose.choice(["chunk(2, 1)", "split(2, 1)", "tensor_split(2, 1)"])
        lines = [f"p{new}, q{new} = {self.pick()}.{way}"]
        if self.choose.random() < 0.5:
            self.names.append(new)
            lines += [line for _ in range(2) for line in self.filled(self.choose.choice(_HALVES))]
            lines.append(f"{new} = torch.cat([p{new}, q{new}], 1)")
        return lines

    def block(self) -> list[str]:
        """A loop or a branch; names that it makes are not used behind it."""
        known, rows, halves = list(self.names), list(self.rows), list(self.halves)
        inner = [line for _ in range(self.choose.randint(1, 3)) for line in self.statement(True)]
        self.names, self.rows, self.halves = known, rows, halves
        head = self.choose.choice(
            [f"for step in range({self.choose.randint(1, 3)}):", "if w.sum() > 1:", "while True:"]
        )
        return [head, *(f"    {line}" for line in inner), *(["    break"] if head == "while True:" else [])]


def program(seed: int) -> str:
    """A program by its number; `loss` is what it computes, `leaves` what it is differentiated by."""
    statements, total, choose = _statements(seed)
    whole = "\n".join(line for statement in statements for line in statement)
    if choose.random() < 0.5:
        main = f"def f(x, w):\n{_indented(whole)}\n    return {total}\n\n\nloss = f(x, w)\n"
    else:
        main = f"{whole}\nloss = {total}\n"
    return _HEAD + "\n\n" + "\n\n".join([*_functions(whole), main]) + "loss.backward()\n"


def modules(seed: int) -> tuple[str, str] | None:
    """The same program as a tree of modules in two files, with its state on `self`; None if it cannot be divided.

    The second file imports all of the first, which is called `stem`.
    """
    statements, total, choose = _statements(seed)
    places = [place for place in range(1, len(statements)) if _carried(statements, place, total) is not None]
    if not places:
        return None
    place = choose.choice(places)
    names = _carried(statements, place, total) or []
    first, second = (
        "\n".join(line for statement in part for line in statement) for part in (statements[:place], statements[place:])
    )
    kept = "\n".join([first, *(f"self.{name} = {name}" for name in names)])
    taken = "\n".join([*(f"{name} = self.stem.{name}" for name in names), second, f"return {total}"])
    head, leaves = _HEAD.split("x = ", 1)
    stem = f"class Stem(torch.nn.Module):\n    def forward(self, x, w):\n{_indented(_indented(kept))}\n"
    net = (
        "class Net(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.stem = Stem()\n\n"
        f"    def forward(self, x, w):\n        self.stem(x, w)\n{_indented(_indented(taken))}\n"
    )
    functions = _functions(f"{first}\n{second}")
    main = [f"import torch\nfrom stem import *\n\nx = {leaves}", net, "loss = Net()(x, w)\nloss.backward()\n"]
    return head + "\n\n".join([*functions, stem]), "\n\n".join(main)


_NAME = re.compile(r"\b(?:[rpq]?h\d+|kept|box|d)\b")


def _carried(statements: list[list[str]], place: int, total: str) -> list[str] | None:
    """The names that the second part needs of the first; None if the first does not surely bind all of them."""
    first = [line for statement in statements[:place] for line in statement]
    rest = "\n".join([*(line for statement in statements[place:] for line in statement), total])
    bound = {
        name for line in first if " = " in line and line[:1] != " " for name in _NAME.findall(line.split(" = ")[0])
    }
    here = {name for line in first for name in _NAME.findall(line)}
    wanted = sorted(set(_NAME.findall(rest)) & here)
    return wanted if set(wanted) <= bound else None


def _statements(seed: int) -> tuple[list[list[str]], str, random.Random]:
    """The statements, each with its lines, and what is computed of them."""
    writer = _Writer(seed)
    body = [["h0 = x * w"]]
    for _ in range(writer.choose.randint(3, 9)):
        body.append(writer.statement(False))
    choose, names = writer.choose, writer.names
    roots = choose.sample(names, min(len(names), choose.randint(1, 3)))
    total = " + ".join(f"({name} * {name}).sum()" if choose.random() < 0.5 else f"{name}.sum()" for name in roots)
    starts = {"kept": "kept = []", "box": "box = Box()\nbox.h = x * 2", "d": 'd = {"k": w * 2}'}
    for name in sorted(writer.uses):
        body[:0] = [starts[name].split("\n")]
        total += {"kept": " + sum(one.sum() for one in kept)", "box": " + box.h.sum()", "d": ' + d["k"].sum()'}[name]
    return body, total, choose


def _functions(whole: str) -> list[str]:
    return [text for text in _FUNCTIONS if text[4 : text.index("(")] + "(" in whole]


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.split("\n"))
