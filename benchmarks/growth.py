"""Does the time and memory of `outplace check` grow with the size of a file, and no faster?

    python benchmarks/growth.py [--sizes 100 200 400 800] [--only SHAPE] [--large]

Each shape is a program of N lines that tries to grow: lists that double, thousands of views of one tensor, functions
that call each other. Each file is checked in a process of its own, with a limit on CPU time and memory. The table
gives seconds and MB for each size. `exponent` is how fast the time grows between the two largest sizes: 1 is linear.
With `--large` each shape is a file of nearly 5 MB, and the commands `outplace check` and `outplace fix` run on it.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

SECONDS, MEGABYTES = 10, 512
"""What any file may take."""

START = "import torch\nfrom torch import nn\nt = torch.ones(3, requires_grad=True)\nx = t.exp()\n"
END = "x += 1\nx.sum().backward()\n"


def each(lines: str, before: str = "", after: str = "") -> Callable[[int], str]:
    """A program that repeats some lines; `{i}` is their number, `{j}` the number before it, `{n}` the last one."""
    return lambda n: START + before + "".join(lines.format(i=i + 1, j=i) for i in range(n)) + after.format(n=n) + END


SHAPES: dict[str, Callable[[int], str]] = {
    "a list that doubles": each("l = l + l\n", "l = [t]\n"),
    "a list in a list, twice": each("l = [l, l]\n", "l = [t]\n", "torch.stack(l)\n"),
    "a dict in a dict, twice": each("d = dict(a=d, b=d)\n", "d = dict(a=t)\n", "print(d)\n"),
    "a tuple that doubles": each("l = (*l, *l)\n", "l = (t,)\n"),
    "a text that doubles": each("s = s + s\n", "s = 'a'\n"),
    "a number that is squared": each("n = n * n\n", "n = 3\n"),
    "a number to its own power": each("n = n ** n\n", "n = 3\n"),
    "extended by itself": each("l.extend(l)\n", "l = [t]\n"),
    "a list times a number": each("l = l * 10\n", "l = [t]\n"),
    "views that are written": each("y{i} = x[{i}:]; y{i}.exp_(); z{i} = x.exp()\n"),
    "views of views": each("y = y[1:]; y += 1\n", "y = x\n"),
    "one tensor written again": each("x += 1; y = x * x\n"),
    "backwards over writes that autograd does not see": each(
        "x.data[{i}] = 0; z = z + x * x; z.sum().backward(retain_graph=True)\n", "z = x\n"
    ),
    "backwards over detached writes": each(
        "y.mul_(2); z = z + x; z.sum().backward(retain_graph=True)\n", "z = x = x + 1; y = x.detach()\n"
    ),
    "steps between backwards": each(
        "z = z + w * w; o.step(); z.sum().backward(retain_graph=True)\n",
        "w = nn.Parameter(torch.ones(3)); z = w\no = torch.optim.SGD([w] * 99)\n",
    ),
    "branches of unknown tests": each("if input() == '{i}': x = x + {i}\n"),
    "nested branches": lambda n: (
        START + "".join(" " * min(i, 80) + "if input():\n" for i in range(min(n, 80))) + " " * 81 + "x = x * 2\n" + END
    ),
    "a long elif chain": each("elif k == '{i}':\n    x = x * {i}\n", "k = input()\nif k == '':\n    pass\n"),
    "functions that call the one before": each(
        "def f{i}(a): return f{j}(f{j}(a))\n", "def f0(a): return a * 2\n", "x = f{n}(x)\n"
    ),
    "mutual recursion": each(
        "def f{j}(a): return f{i}(a * 2) + f{i}(a)\n", after="def f{n}(a): return f0(a) + f1(a)\nx = f0(x)\n"
    ),
    "closures in closures": each("f = (lambda g: lambda a: g(g(a)))(f)\n", "f = lambda a: a * 2\n", "x = f(x)\n"),
    "a deep class hierarchy": each(
        "class C{i}(C{j}):\n    def forward(self, a):\n        return super().forward(a) + super().forward(a)\n",
        "class C0(nn.Module):\n    def forward(self, a):\n        return a * 2\n",
        "x = C{n}()(x)\n",
    ),
    "decorators of decorators": each(
        "@d\n",
        "def d(f):\n    def g(a):\n        return f(f(a))\n    return g\n",
        "def h(a):\n    return a * 2\nx = h(x)\n",
    ),
    "many optimizers": each("o{i} = torch.optim.SGD([t], lr=0.1); o{i}.step()\n"),
    "many modules": each("m{i} = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True)); x = m{i}(x)\n"),
    "a comprehension of comprehensions": each("l = [[a for a in l] for _ in range(9)]\n", "l = [t, t]\n"),
    "deep subscripts": lambda n: START + "y = x" + "[0:]" * min(n, 400) + "\ny += 1\n" + END,
    "a long sum": lambda n: START + "y = " + " + ".join(["x * x"] * n) + "\n" + END,
    "loops in loops": lambda n: (
        START + "".join(" " * i + f"for a{i} in range(9):\n" for i in range(min(n, 18))) + " " * 19 + "x += 1\n" + END
    ),
    "stars of stars": each("l = f(*l, *l)\n", "def f(*a): return a\nl = [t]\n"),
    "plain statements": each("y{i} = (x * {i}).relu()\n"),
    "functions that call one that writes": each(
        "def f{i}(a: torch.Tensor): return f{j}(a) * 2\n",
        "def f0(a: torch.Tensor):\n    a.mul_(2)\n    return a.exp()\n",
    ),
    "functions that call one that trains": each(
        "def f{i}(a, o): return f{j}(a, o)\n", "def f0(a, o): a.sum().backward(); o.step()\n"
    ),
    "many functions that write": each("def f{i}(a):\n    b = a.exp()\n    b += 1\n    return b\n"),
}


LARGE = 4_900_000
"""Characters. Files of more than 5 MB are skipped."""
BUG = START + "x += 1\nx.sum().backward()\nx = t.exp()\n"
"""Stands at the start of a large file, because only the start may be analysed."""


def line_by_line(lines: str) -> Callable[[], str]:
    """A large file that repeats some lines."""

    def made() -> str:
        parts, size = [BUG], 0
        while size < LARGE - 2 * len(lines) - len(END) - len(BUG):
            parts.append(lines.format(i=len(parts), j=len(parts) - 1))
            size += len(parts[-1])
        return "".join(parts) + END

    return made


def once(start: str, repeated: str, end: str = "\n", count: int = LARGE) -> Callable[[], str]:
    """A large file with one long line; `count`: of its repeated parts, at most."""
    return lambda: BUG + start + repeated * min(count, (LARGE - 1000) // len(repeated.encode())) + end + END


LARGE_SHAPES: dict[str, Callable[[], str]] = {
    "one text": once("s = '''", "a b ", "'''\n"),
    "one text of escapes": once("s = '''", "a\\' ", "'''\n"),
    "one text of empty lines": once("s = '''", "\n", "'''\n"),
    "one wide list": once("y = [", "x, ", "]\n"),
    "a list of 140,000": once("y = [", "1, ", "]\n", 140_000),
    "one long sum": once("y = x", "+x"),
    "one line of statements": once("", "x+=1;"),
    "comments": once("", "# torch x += 1 a comment that goes on\n"),
    "empty lines": once("", "\n"),
    "70,000 statements": once("", "a = b\n", "", 70_000),
    "19,000 attributes": once("", "a.b.c.d = e.f.g\n", "", 19_000),
    "15,000 statements": once("", "a = b\n", "", 15_000),
    "lines of texts": line_by_line(
        "s{i} = 'some words that are long enough to be a line of text in a table of data'\n"
    ),
    "views": line_by_line("y{i} = x[{i}:]; y{i}.exp_(); z{i} = x.exp()\n"),
    "bugs": line_by_line("y{i} = x.exp(); y{i} += 1; y{i}.sum().backward()\n"),
    "functions with bugs": line_by_line(
        "def f{i}():\n  y = torch.ones(3, requires_grad=True).exp()\n  y += 1\n  y.sum().backward()\n"
    ),
    "methods": line_by_line(
        "class C{i}(nn.Module):\n  def forward(self, x):\n    y = x.exp()\n    y += 1\n    return y\n"
    ),
    "f-strings": line_by_line("y = f'{{x}} {{x!r}} {{x:>{{x}}}}'\n"),
    "brackets in brackets": line_by_line("y = " + "[" * 90 + "x" + "]" * 90 + "\n"),
    "backwards": line_by_line("x.data[{i}] = 0; z = x * x; z.sum().backward(retain_graph=True)\n"),
}


def main() -> None:
    """Check each shape at each size, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 200, 400, 800])
    parser.add_argument("--only", choices=[*SHAPES, *LARGE_SHAPES])
    parser.add_argument("--large", action="store_true", help="files of nearly 5 MB, checked and repaired")
    options = parser.parse_args()
    if options.large:
        sys.exit(_large({options.only: LARGE_SHAPES[options.only]} if options.only else LARGE_SHAPES))
    print("| shape | " + " | ".join(f"{size} lines" for size in options.sizes) + " | exponent |")
    print("|---|" + "--:|" * (len(options.sizes) + 1))
    shapes = {options.only: SHAPES[options.only]} if options.only else SHAPES
    over = 0
    for name, shape in shapes.items():
        taken = [_checked(shape(size)) for size in options.sizes]
        cells = [f"{time:.1f} s, {memory:.0f} MB" if time < math.inf else "over" for time, memory in taken]
        print(f"| {name} | " + " | ".join(cells) + f" | {_exponent(options.sizes, taken):.1f} |", flush=True)
        over += any(time > SECONDS or memory > MEGABYTES for time, memory in taken)
    print(f"\n{over} of {len(shapes)} shapes over {SECONDS} s or {MEGABYTES} MB.")
    sys.exit(over > 0)


def _large(shapes: dict[str, Callable[[], str]]) -> bool:
    """Prints the table of large files. Is one of them over the bounds?"""
    print("| shape | MB | check | fix |\n|---|--:|--:|--:|")
    over = False
    for name, shape in shapes.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.py"
            path.write_text(shape())
            ways = (["check", "--no-cache", "--isolated"], ["fix", "--diff", "--isolated"])
            taken = [_run([sys.executable, "-m", "outplace", *way, str(path)]) for way in ways]
            cells = [f"{time:.1f} s, {memory:.0f} MB" for time, memory in taken]
            print(f"| {name} | {path.stat().st_size / 1e6:.1f} | " + " | ".join(cells) + " |", flush=True)
        over |= any(time > SECONDS or memory > MEGABYTES for time, memory in taken)
    return over


def _run(command: list[str]) -> tuple[float, float]:
    """CPU seconds and MB that a command takes; infinite if it fails."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        return math.inf, math.inf
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def _exponent(sizes: list[int], taken: list[tuple[float, float]]) -> float:
    """How fast the time grows between the two largest sizes."""
    if len(sizes) < 2 or taken[-1][0] == math.inf:
        return math.inf
    return math.log(taken[-1][0] / taken[-2][0]) / math.log(sizes[-1] / sizes[-2])


_CHECK = """
import resource, sys, time
from outplace.checking.file_check import check_text
from outplace.source.project import Project
text = open(sys.argv[1]).read()
start = time.process_time()
outcome = check_text(sys.argv[1], text, Project(), fixes=False)
print(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, outcome.failure or "")
"""


def _checked(program: str) -> tuple[float, float]:
    """CPU seconds and MB that it takes to check a program; infinite if it does not end in time, or fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"
        path.write_text(program)
        done = subprocess.run(
            [sys.executable, "-c", _CHECK, str(path)], capture_output=True, text=True, preexec_fn=_limited, check=False
        )
    taken = done.stdout.split(maxsplit=2)
    if done.returncode or len(taken) != 2:
        print(f"  failed: {(done.stdout + done.stderr).strip()[-200:]}", file=sys.stderr)
        return math.inf, math.inf
    return float(taken[0]), float(taken[1])


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (2 * SECONDS, 2 * SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (4 * MEGABYTES << 20, 4 * MEGABYTES << 20))


if __name__ == "__main__":
    main()
