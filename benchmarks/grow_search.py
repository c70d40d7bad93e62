"""Searches for a program that makes `outplace check` slow or large: random programs that try to grow.

    python benchmarks/grow_search.py [--count 50000] [--minutes 30] [--jobs 16] [--first 0] [--keep FOLDER] [--fix]
    python benchmarks/grow_search.py --show SEED

Each program is made from a seed: lists, dicts, texts and numbers that double, views of views, functions, closures,
classes and decorators that call each other, deep expressions, many optimizers, in loops, branches, functions and
methods. Each is checked in a process of its own, which has twice the CPU time and four times the memory that a file may
take. Programs that take more than a file may are printed as they are found, and the slowest at the end. torch is not
needed.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outplace.model import Finding

sys.path.insert(0, str(Path(__file__).parent))
from growth import END, MEGABYTES, SECONDS, SHAPES, START

MORE = (
    "import copy, functools, itertools\n"
    "l, k, d, s, n = [t, x], (t,), dict(a=t), 'a', 3\n"
    "def f0(a, *more, **named): return a * 2\n"
    "def g0(a): return f0(a)\n"
    "def dec(h):\n    @functools.wraps(h)\n    def inner(*a, **b):\n        return h(*a, **b)\n    return inner\n"
    "class C0(nn.Module):\n    def forward(self, a): return a * 2\n"
)
LINES = {
    "lists": [
        *("l = l + l", "l = [l, l]", "l.extend(l)", "l = [*l, *l]", "l += l", "l.append(l)", "l = l[:] + l[::-1]"),
        *("l = [a for a in l for b in l]", "l = list(zip(l, l))", "l = sum([l, l], [])", "l = l * {r}"),
        *("l = [[a, a] for a in l]", "l = [l for _ in range({r})]", "l.insert(0, l[-1])", "l = sorted(l, key=id) * 2"),
        *("l = list(map(lambda a: [a, a], l))", "l = list(itertools.product(l, l))", "l = copy.deepcopy(l) + l"),
        *("l[0:0] = l", "l = list(reversed(l)) + l", "l, k = l + [k], k + (l,)", "l = [y for y in [l, l, k]]"),
    ],
    "tuples": ["k = (*k, *k)", "k = k + k", "k = (k, k)", "k = k * {r}", "k = tuple(l) + k", "k, *l = (*k, *l, *k)"],
    "dicts": [
        *(
            "d = dict(a=d, b=d)",
            "d = {{**d, 'k{i}': d}}",
            "d['{i}'] = d",
            "d.update({{str(a): l for a in range({r})}})",
        ),
        *("d = {{a: [d, d] for a in range({r})}}", "d = d | {{'{i}': l}}", "d.setdefault('{i}', []).append(d)"),
        *(
            "d = {{a: {{b: d for b in range({r})}} for a in d}}",
            "d['a'] = [d.get('a'), d.get('a')]",
            "l = list(d.items())",
        ),
    ],
    "texts": [
        *(
            "s = s + s",
            "s = s * {r}",
            "s = f'{{s}}{{s}}'",
            "s = s.join([s, s])",
            "s = s.replace('a', s)",
            "s = '%s%s' % (s, s)",
        ),
        *("s = ''.join(c + c for c in s)", "l = list(s)", "s = str(l)", "s = '{{}}{{}}'.format(s, s)", "d[s] = s"),
    ],
    "numbers": [
        *(
            "n = n * n",
            "n = n ** 2",
            "n = n ** n",
            "n = n << n",
            "n = n * 10 ** n",
            "l = [t] * n",
            "l = list(range(n))",
        ),
        *(
            "n = len(l) * n",
            "n += sum(range(n))",
            "x = x.repeat(n)",
            "s = 'a' * n",
            "k = (0,) * n",
            "n = int('9' * {r})",
        ),
    ],
    "views": [
        *(
            "y{i} = x[{i}:]; y{i}.exp_(); z{i} = x.exp()",
            "y = x[{i}:]; y += 1",
            "x = x[1:]; x *= 2",
            "y = x.view(-1); y.mul_(2)",
        ),
        *(
            "q, r = x.chunk(2); q += 1; x = x * r",
            "l.append(x[{i}]); l[-1].add_(1)",
            "x[{i}] = x[{i} - 1] * 2",
            "y = x.t(); y /= 3",
        ),
        *(
            "for y in x.unbind(): y.mul_(2)",
            "y = x.detach(); y += 1",
            "x.data[{i}] = 0",
            "x = torch.cat([x, x])",
            "x = x * x",
        ),
        *(
            "y = torch.stack(l); y += 1",
            "l = [p.mul_(2) for p in l]",
            "x[x > {i}] += 1",
            "y = x.expand({r}, 3); y += 1",
        ),
        *(
            "l = [x[a:] for a in range({r})]",
            "for a in range({r}): x[a:].mul_(2)",
            "x.numpy()[{i}] = 0; x = x * 2",
            "y = x.data; y[{i}] *= 2; x = x + y",
            "l = [*x.split(1), *l]; l[0] *= 2",
            "a, b = x, x.view(-1); a += b; b -= a",
        ),
    ],
    "functions": [
        *("def f{i}(a, *more, **named): return f{j}(f{j}(a, *more), a, *more)", "def f{i}(a, b=f{j}): return b(b(a))"),
        *("f{i} = lambda a, *b: f{j}(f{j}(a))", "f{i} = functools.partial(f{j}, b=f{j})", "f{i} = dec(dec(f{j}))"),
        *(
            "def f{i}(a, *b):\n    def f(c): return f{j}(f{j}(c))\n    return f(f(a))",
            "f{i} = (lambda g: lambda a, *b: g(g(a)))(f{j})",
        ),
        *("def f{i}(a, *b): return g{i}(a, *b, *b) + g{i}(a)\ndef g{i}(a, *b): return f{i}(a) + f{j}(a) + g{j}(a)",),
        *(
            "@dec\n@dec\ndef f{i}(a, *b): return f{j}(a, *b) + f{j}(a)",
            "def f{i}(a): yield f{j}(a); yield from f{i}(a)",
        ),
        *(
            "def f{i}(a, *b):\n    global f{j}\n    f{j} = f{i}\n    return f{j}(a)",
            "async def f{i}(a): return await f{j}(await f{j}(a))",
        ),
        *(
            "def f{i}(a, *b):\n    def again(c, n=3): return again(again(f{j}(c), n - 1), n - 1) if n else c\n"
            "    return again(a)",
            "f{i} = (lambda h: h(h))(lambda h: lambda a, *b: h(h)(f{j}(a)) if input() else f{j}(a))",
            "def f{i}(a, *b): return g{i}(a) + g{i}(a, *b) if input() else a\n"
            "def g{i}(a, *b): return h{i}(f{j}(a)) + g{j}(a)\ndef h{i}(a, *b): return f{i}(a) * g{i}(a)",
            "def f{i}(*a, **b): return f{j}(*a, *a, **b)",
            "def f{i}(a, *b, **c): return [f{j}(a, *b, *b, **c, **{{'k{i}': a}}) for _ in range({r})]",
            "@functools.cache\ndef f{i}(a, *b): return f{j}(a) + f{j}(a, *b)",
            "def dec{i}(n):\n    def outer(h): return dec(dec(h)) if n else h\n    return outer\n"
            "@dec{i}({i})\n@dec{i}(0)\ndef f{i}(a, *b): return f{j}(a) + f{j}(a)",
            "class F{i}:\n    def __init__(self, h): self.h = h\n"
            "    def __call__(self, a, *b): return self.h(self.h(a))\n"
            "f{i} = F{i}(F{i}(f{j}))",
            "def f{i}(a, l=[], d={{}}):\n    l.append(l); d[len(d)] = l\n    return f{j}(a) + f{j}(a)",
        ),
    ],
    "calls": [
        *(
            "x = f{j}(x)",
            "l = [f{j}(a) for a in l]",
            "x = f{j}(*l, **d)",
            "x = f{j}(f{j}(f{j}(x)))",
            "l = f{j}(*l, *l, *k)",
        ),
        *("x = functools.reduce(lambda a, b: a + b, l)", "x = sum(f{j}(a) for a in l)", "d = dict(map(f{j}, l))"),
        *(
            "x = f{j}(*[x] * {r})",
            "l = [*l, *(f{j}(*l), f{j}(*k))]",
            "d = dict(**d, k{i}=f{j}(x))",
            "print(*l, *k, *d)",
        ),
        *("l = list(map(f{j}, l, k))", "x = f{j}(x) if input() else f{j}(f{j}(x))", "k = *k, f{j}, f{j}"),
    ],
    "classes": [
        *("class C{i}(C{j}):\n    def forward(self, a): return super().forward(a) + super().forward(a)",),
        "class C{i}(C{j}):\n  def __init__(self):\n    super().__init__(); self.m = nn.ModuleList([C{j}(), C{j}()])",
        *("class C{i}(C{j}, C0):\n    l = [C{j}] * 2\n    @property\n    def p(self): return [self.l, self.l]",),
        *(
            "class C{i}(C{j}):\n    def __call__(self, a):\n        a += 1\n        return C{j}()(C{j}()(a))",
            "x = C{j}()(x)",
        ),
        *("m = nn.Sequential(*[C{j}() for _ in range({r})]); x = m(x)", "m = C{j}(); m.m = m; x = m(x)"),
        *(
            "class A{i}(C{j}): pass\nclass B{i}(C{j}): pass\nclass C{i}(A{i}, B{i}):\n"
            "    def forward(self, a): return A{i}.forward(self, a) + B{i}.forward(self, super().forward(a))",
            "class C{i}(C{j}):\n    def __getitem__(self, k): return self[k][k]\n"
            "    def __getattr__(self, k): return self\n"
            "    def forward(self, a): return super().forward(self.a.b[0] or a)",
            "class C{i}(C{j}):\n    def up(self, a): return self.down(a) + self.down(a)\n"
            "    def down(self, a): return self.up(super().forward(a)) if input() else a\n"
            "    def forward(self, a): return self.up(a)",
            "class C{i}(C{j}):\n    def __init__(self, **k):\n        super().__init__(**k)\n"
            "        for a in range({r}): setattr(self, f'm{{a}}', C{j}())",
            "class M{i}(type(C{j})):\n    def __call__(c, *a): return super().__call__(*a)\n"
            "class C{i}(C{j}, metaclass=M{i}): pass",
            "class C{i}(C{j}):\n    class C(C{j}):\n        def forward(self, a): return C{j}()(C{j}()(a))\n"
            "    def forward(self, a): return self.C()(super().forward(a))",
            "m = copy.deepcopy(C{j}()); m.load_state_dict(m.state_dict()); x = m(m(x))",
            "l = [C{j}() for _ in range({r})]",
        ),
    ],
    "training": [
        *("o{i} = torch.optim.SGD([t], lr=0.1); o{i}.step()", "o = torch.optim.Adam(l + l); o.zero_grad(); o.step()"),
        *("m = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True)); x = m(x)", "x.sum().backward(retain_graph=True)"),
        *(
            "with torch.no_grad(): t.add_({i})",
            "m = nn.ModuleList([m, m]) if {i} > 1 else nn.ReLU(True)",
            "t.register_hook(lambda g: g * 2)",
        ),
        *(
            "l = [torch.optim.SGD([t], lr=0.1) for _ in range({r})]",
            "o = torch.optim.SGD([dict(params=[t, x]) for _ in range({r})]); o.step()",
            "for a in l: a.step() if input() else a.zero_grad()",
            "x = torch.utils.checkpoint.checkpoint(f0, x, use_reentrant=False)",
            "class G{i}(torch.autograd.Function):\n"
            "    @staticmethod\n    def forward(c, a): c.save_for_backward(a, a); return a\n"
            "    @staticmethod\n    def backward(c, g): return g * c.saved_tensors[0]\nx = G{i}.apply(G{i}.apply(x))",
            "x.data = x.data * 2; x.sum().backward(retain_graph=True, create_graph=True)",
            "t.grad = t.grad * 2 if t.grad is not None else x; t.grad += 1",
            "g = torch.autograd.grad(x.sum(), t, create_graph=True)[0]; x = x * g",
        ),
    ],
    "branches": [
        *("if input() == '{i}': x = x + {i}", "x = x * 2 if input() else x.exp()", "l = l if input() else [l, x]"),
        *(
            "while input(): x = x * 2",
            "try: x = x + 1\nexcept ValueError: x += 2\nfinally: l = [l, x]",
            "if x.sum() > {i}: l = l + [x]",
        ),
        *(
            "match input():\n    case '{i}': x = x * 2\n    case [a, *b]: x += 1\n    case _: l = [l]",
            "for a in l: x = x + a",
        ),
        *("y = (l := [l, l])", "assert x.sum() > {i} or input()", "del l[0]", "for a in l:\n    for b in l: x = x * 2"),
    ],
}
DEEP: list[Callable[[int], str]] = [
    lambda n: "y = x" + "[0:]" * n + "; y += 1",
    lambda n: "y = x" + ".exp()" * n + "; y += 1",
    lambda n: "y = " + "f0(" * n + "x" + ")" * n,
    lambda n: "y = " + "[" * n + "x" + "]" * n,
    lambda n: "y = " + " + ".join(["x * x"] * n),
    lambda n: "y = " + "-" * n + "x",
    lambda n: "y = " + " or ".join(f"x.sum() > {i}" for i in range(n)),
    lambda n: "y = " + " if input() else ".join(f"x * {i}" for i in range(n)),
    lambda n: "y = " + "(lambda a: " * min(n, 80) + "a" + ")(x)" * min(n, 80),
    lambda n: "y = [a" + "".join(f" for a{i} in l" for i in range(n)) + " for a in l]",
    lambda n: "y = f0(" + ", ".join(["*l"] * n) + ")",
    lambda n: "y = dict(" + ", ".join(f"a{i}=x" for i in range(n)) + ")",
    lambda n: "if input() == '':\n    pass\n" + "".join(f"elif input() == '{i}':\n    x = x * {i}\n" for i in range(n)),
    lambda n: "def h(" + ", ".join(f"a{i}=x" for i in range(n)) + "): a0.add_(1); return a0\ny = h()",
    lambda n: " = ".join(f"y{i}" for i in range(n)) + " = x",
    lambda n: "y = x" + ".a" * n + "; y.b = x; y.b += 1",
    lambda n: "y = l" + "[0]" * n + "; y += 1",
    lambda n: "d" + "['a']" * n + " = x",
    lambda n: "y = " + "x[" * n + "0" + "]" * n,
    lambda n: "y = " + "l[0:" * n + "1" + "]" * n,
    lambda n: (
        "if input() == '':\n    pass\n"
        + "".join(f"elif s == '{i}':\n    x[{i}] += {i}; y{i} = x.exp()\n" for i in range(n))
    ),
    lambda n: "match l:\n" + "".join(f"    case [{i}, *a]: x = x * {i}; l = [a, a]\n" for i in range(n)),
    lambda n: "y = " + "f0(*" * n + "l" + ")" * n,
    lambda n: "".join(["@dec\n"] * n) + "def h(a): return a.add_(1)\ny = h(x)",
    lambda n: "y = " + "(lambda *a: " * min(n, 80) + "a" + ")(*l, *l)" * min(n, 80),
    lambda n: "with " + ", ".join(["torch.no_grad()"] * n) + ":\n    x += 1",
    lambda n: "y = " + "[" * min(n, 60) + "x" + " for _ in l]" * min(n, 60),
    lambda n: "class D(" + ", ".join(["C0"] + [f"type('T{i}', (), dict())" for i in range(n)]) + "): pass",
    lambda n: "".join(f"{' ' * i}for a{i} in l:\n" for i in range(min(n, 19))) + " " * min(n, 19) + "x = x * 2",
    lambda n: "".join(f"{' ' * i}def h{i}(a):\n" for i in range(min(n, 60))) + " " * min(n, 60) + "a += 1",
    lambda n: "".join(f"{' ' * i}if input():\n" for i in range(min(n, 80))) + " " * min(n, 80) + "x += 1",
]
AROUND = [
    "for _ in range({r}):\n",
    "for a in l:\n",
    "while input():\n",
    "if input():\n",
    "with torch.no_grad():\n",
    "try:\n",
    "def block{i}(x, l, k, d, s, n, m=None):\n",
    "class Block{i}:\n",
    "class Block{i}(nn.Module):\n    def forward(self, x, l, k, d, s, n):\n",
    "def block{i}(x, l, k, d, s, n):\n    for y in l:\n",
    "def block{i}(x, l, k, d, s, n):\n    def inner(x):\n",
]


def program(seed: int) -> str:
    """The program of a seed."""
    draw = random.Random(seed)
    if draw.random() < 0.05:  # the shapes of growth.py, at any size
        return SHAPES[draw.choice(list(SHAPES))](_size(draw, 800))
    parts = [_part(draw, number) for number in range(draw.choice([1, 1, 2, 3, 5]))]
    return START + MORE + "".join(parts) + END


def _size(draw: random.Random, most: int) -> int:
    """A size up to the most; small ones are as likely as large ones."""
    return max(1, int(most ** draw.random()))


def _part(draw: random.Random, number: int) -> str:
    """Some lines, one after another, perhaps within loops, branches or functions."""
    if draw.random() < 0.15:
        text = draw.choice(DEEP)(_size(draw, 150)) + "\n"
    else:
        families = draw.sample(list(LINES), draw.choice([1, 1, 2, 3]))
        lines = [line for family in families for line in draw.sample(LINES[family], draw.choice([1, 2, 4]))]
        in_turn = draw.random() < 0.5
        text = ""
        for i in range(_size(draw, 400)):
            line = lines[i % len(lines)] if in_turn else draw.choice(lines)
            text += (
                line.format(i=1000 * number + i + 1, j=1000 * number + i if i else 0, r=draw.choice([2, 10, 1000]))
                + "\n"
            )
    for depth in range(draw.choice([0, 0, 1, 2, 4])):
        around = draw.choice(AROUND)
        head = around.format(i=10 * number + depth, r=draw.choice([2, 10, 1000]))
        inside = "    " * head.count("\n")
        text = head + "".join(f"{inside}{line}\n" for line in text.splitlines())
        text += "except ValueError:\n    pass\n" if around == "try:\n" else ""
        text += "    inner(inner(x))\n" if around.endswith("def inner(x):\n") else ""
        text += f"block{10 * number + depth}(x, l, k, d, s, n)\n" if around.startswith("def") else ""
        text += f"Block{10 * number + depth}()(x, l, k, d, s, n)\n" if "(nn.Module)" in around else ""
    return text


def main() -> None:
    """Checks the programs, and prints what is over the budget."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--fix", action="store_true", help="repair the programs, too")
    parser.add_argument("--keep", type=Path, help="a folder for the programs that are over the budget")
    parser.add_argument("--show", type=int, help="print the program of this seed")
    options = parser.parse_args()
    if options.show is not None:
        print(program(options.show), end="")
        return
    import outplace.repair.drive.from_source  # noqa: F401

    for seed in range(10):  # what is imported and read for the first program is there for all
        _checked(seed)
    gc.collect()
    gc.freeze()
    start, seeds = time.time(), iter(range(options.first, options.first + options.count))
    running: dict[int, int] = {}
    done: list[tuple[float, float, int]] = []
    outcomes = dict.fromkeys(("to the end", "cut short", "not Python", "failed", "over"), 0)
    while True:
        while len(running) < options.jobs and time.time() - start < 60 * options.minutes:
            seed = next(seeds, None)
            if seed is None:
                break
            running[_start(seed, options.fix)] = seed
        if not running:
            break
        process, status, used = os.wait4(-1, 0)
        seed = running.pop(process)
        seconds, megabytes = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
        outcome = _outcome(status, seconds, megabytes)
        outcomes[outcome] += 1
        done.append((seconds, megabytes, seed))
        if outcome in ("over", "failed"):
            print(f"{outcome}: seed {seed}, {seconds:.1f} s, {megabytes:.0f} MB", flush=True)
            if options.keep:
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / f"{seed}.py").write_text(program(seed))
        if not len(done) % 1000:
            print(f"{len(done)} programs in {time.time() - start:.0f} s: {_listed(outcomes)}", flush=True)
    print(f"\n{len(done)} programs: {_listed(outcomes)}")
    print("slowest: " + ", ".join(f"seed {seed} {seconds:.1f} s" for seconds, _, seed in sorted(done)[-5:][::-1]))
    largest = sorted(done, key=lambda one: one[1])[-5:][::-1]
    print("largest: " + ", ".join(f"seed {seed} {size:.0f} MB" for _, size, seed in largest))
    sys.exit(outcomes["over"] + outcomes["failed"] > 0)


def _listed(outcomes: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in outcomes.items())


def _outcome(status: int, seconds: float, megabytes: float) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code < 0 or seconds > SECONDS or megabytes > MEGABYTES:
        return "over"
    return {0: "to the end", 3: "cut short", 4: "not Python"}.get(code, "failed")


def _start(seed: int, fix: bool) -> int:
    """Starts the check of a program in a new process, and returns the number of that process."""
    process = os.fork()
    if process:
        return process
    code = 5
    try:
        most = 2 * SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))
        resource.setrlimit(resource.RLIMIT_AS, (4 * MEGABYTES << 20, 4 * MEGABYTES << 20))
        code = _fixed(seed) if fix else _checked(seed)
    finally:
        os._exit(code)


def _checked(seed: int) -> int:
    """Checks a program: 0 to the end, 3 cut short, 4 not Python, 5 failed."""
    from outplace.checking.file_check import check_text
    from outplace.source.project import Project

    outcome = check_text("program.py", program(seed), Project(), fixes=False)
    if outcome.failure is not None:
        if not outcome.failure.internal:
            return 4
        print(f"seed {seed}: {outcome.failure.message}", file=sys.stderr, flush=True)
        return 5
    return 3 if any(note.left_out for note in outcome.notes) else 0


def _fixed(seed: int) -> int:
    """The same for a repair: 0 if it came to its end, 3 if its time was over."""
    from outplace.repair.drive.from_source import repair
    from outplace.source.analysis import check_file
    from outplace.source.project import Project

    def check(path: str, text: str, elsewhere: dict[str, str] | None = None) -> list[Finding]:
        return check_file(path, text, Project(texts=elsewhere)).all_findings()

    return 3 if repair("program.py", program(seed), check, lambda _: True, unsafe=True).ran_out else 0


if __name__ == "__main__":
    main()
