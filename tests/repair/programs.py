"""Random small tensor programs: views, aliases, masks, loops, functions; some legal, some not."""

from __future__ import annotations

import random

_HEAD = """import torch

x = torch.linspace(0.2, 1.3, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
w = torch.linspace(1.1, 0.4, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
"""
_UNARY = ["{a}.exp()", "{a}.sigmoid()", "{a} * 2", "{a}.tanh()", "{a} + 1", "torch.sqrt({a} * {a} + 1)", "{a}.clone()"]
_BINARY = ["{a} * {b}", "{a} + {b}", "{a} - {b} * 2", "{a} / ({b} * {b} + 1)", "torch.mul({a}, {b})"]
_VIEW = ["{a}", "{a}.view(4, 3).view(3, 4)", "{a}[:]", "{a}.T.T", "{a}.detach()"]
_WRITE = [
    "{a} += {b}", "{a} *= {b}", "{a} -= 0.5", "{a} /= {b} * {b} + 1", "{a}.mul_({b})", "{a}.add_(1).mul_(2)",
    "{a}[0] = 0.5", "{a}[:, 1] = {b}[:, 2]", "{a}[{a} > 1] = 0.25", "{a}[1:] += {b}[:2]",
    "{a}[..., 0].mul_(3)", "{a}.sigmoid_()", "{a}.tanh_()", "torch.exp({a}, out={a})", "{a}.zero_()",
    "{a}.copy_({b})", "{a}.clamp_(0.1, 0.9)", "{a}.data.mul_(1.5)", "for row in {a}:\n    row.mul_(2)",
    "torch.relu_({a})",
]  # fmt: skip
_FUNCTIONS = [
    "def scale(t):\n    t *= 2\n    return t\n",
    "def shift(t, s):\n    t.add_(s)\n",
    "def same(t):\n    return t\n",
    "def mask(t):\n    t[t > 1] = 1.0\n    return t * 3\n",
]
_CALLS = ["{n} = scale({a})", "scale({a})", "shift({a}, {b})", "{n} = same({a})", "{n} = mask({a})", "{a} = scale({a})"]


def program(seed: int) -> str:
    """A program by its number; `loss` is what it computes."""
    choose = random.Random(seed)
    body = ["h0 = x * w"]
    names = ["h0"]
    lists = False

    def pick() -> str:
        return choose.choice(names)

    def one(deep: bool) -> list[str]:
        nonlocal lists
        kind = choose.random()
        fresh = f"h{len(names)}"
        if kind < 0.3:
            made = f"{fresh} = " + choose.choice(_UNARY + _BINARY).format(a=pick(), b=pick())
        elif kind < 0.42:
            made = f"{fresh} = " + choose.choice(_VIEW).format(a=pick())
        elif kind < 0.75:
            return choose.choice(_WRITE).format(a=pick(), b=pick()).split("\n")
        elif kind < 0.85:
            template = choose.choice(_CALLS)
            line = template.format(n=fresh, a=pick(), b=pick())
            if "{n}" in template:
                names.append(fresh)
            return [line]
        elif kind < 0.93 and not deep:
            count = choose.randint(1, 3)
            known = list(names)
            inner = [line for _ in range(choose.randint(1, 3)) for line in one(True)]
            names[:] = known
            return [f"for step in range({count}):", *(f"    {line}" for line in inner)]
        elif not deep:
            lists = True
            return [f"kept.append({pick()})"]
        else:
            return ["pass"]
        names.append(fresh)
        return [made]

    for _ in range(choose.randint(3, 9)):
        body += one(False)
    roots = choose.sample(names, min(len(names), choose.randint(1, 3)))
    total = " + ".join(f"({name} * {name}).sum()" if choose.random() < 0.5 else f"{name}.sum()" for name in roots)
    if lists:
        body.insert(0, "kept = []")
        total += " + sum(one.sum() for one in kept)"
    whole = "\n".join(body)
    functions = [text for text in _FUNCTIONS if text[4 : text.index("(")] + "(" in whole]
    if choose.random() < 0.5:
        inside = "\n".join(f"    {line}" for line in whole.split("\n"))
        main = f"def f(x, w):\n{inside}\n    return {total}\n\n\nloss = f(x, w)\n"
    else:
        main = f"{whole}\nloss = {total}\n"
    return _HEAD + "\n\n" + "\n\n".join([*functions, main]) + "loss.backward()\n"
