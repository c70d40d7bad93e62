"""Broken and half-broken programs for the source analysis: it must neither crash nor hang on any of them.

    python benchmarks/fuzz_check.py [PATHS...] [--inputs 100000] [--seconds 3600] [--seed 0] [--jobs N]
    python benchmarks/fuzz_check.py --seed 0 --only 4711          runs input 4711 of that seed alone, in the open

Each input is a stretch of a real file (by default of the installed torch's nn, optim and distributions, and of the
programs with bugs in this repository) with a few changes: tokens left out, doubled, exchanged for others of their
kind, lines moved, other files spliced in, the end cut off, bytes flipped. Input N of a seed is the same on every
machine that has the same files. Exit code 0 means that nothing was found.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import multiprocessing
import os
import random
import signal
import sys
import time
import tokenize
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

LONGEST = 250
"""Lines of one input: small ones go deeper, since more of them fit into an hour."""
LIMIT = 10.0
"""Seconds of processor time for one input: a busy machine is no hang."""
GRACE = 10.0
"""More seconds for a process that does not even heed the alarm."""


class Hang(BaseException):
    """The time for one input is up; not an Exception, so that nobody on the way catches it."""


@dataclass(frozen=True)
class Found:
    """An input that failed."""

    index: int
    how: str
    detail: str


def main() -> int:
    options = _options()
    corpus = Corpus(options.paths)
    if options.only is not None:
        return _only(corpus, options.seed, options.only, options.limit)
    about = f"{len(corpus.files)} files, seed {options.seed}"
    print(f"{about}, {options.inputs:,} inputs, {options.jobs} processes", flush=True)
    start = time.monotonic()
    lanes = [Lane(corpus, options, number) for number in range(options.jobs)]
    try:
        while any(lane.running() for lane in lanes):
            time.sleep(0.2)
            if options.seconds and time.monotonic() - start > options.seconds:
                break
    finally:
        for lane in lanes:
            lane.stop()
    return _tell(lanes, options.seed, time.monotonic() - start)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="PATHS")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=0, help="stop after this long; 0: when all inputs are done")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, metavar="N", help="run this input alone and show it")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="SECONDS", help="for one input")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


class Corpus:
    """The real files that inputs are made of."""

    def __init__(self, paths: list[str]) -> None:
        self.files = sorted(_python_files(paths or list(_default_folders())))
        if not self.files:
            sys.exit("no Python files with torch in them under these paths")
        self._texts: dict[str, list[str]] = {}

    def stretch(self, rng: random.Random, most: int = LONGEST) -> list[str]:
        """The imports of a file and some of its lines from the beginning of a definition on."""
        file = rng.choice(self.files)
        if file not in self._texts:
            self._texts[file] = Path(file).read_text("utf-8", "replace").splitlines(keepends=True)
        lines = self._texts[file]
        starts = [number for number, line in enumerate(lines) if line.startswith(("def ", "class ", "@"))]
        if len(lines) <= most or not starts:
            return lines[:most]
        start = rng.choice(starts)
        return [line for line in lines[:start] if line.startswith(("import ", "from "))] + lines[start : start + most]

    def input(self, seed: int, index: int) -> str:
        """Input `index` of a seed."""
        rng = random.Random(f"{seed}:{index}")
        text = "".join(self.stretch(rng))
        for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
            text = rng.choice(_CHANGES)(text, rng, self)
        return text


def _default_folders() -> Iterator[str]:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        sys.exit("torch is not installed; give paths with source that uses it")
    for name in ("nn", "optim", "distributions"):
        yield os.path.join(os.path.dirname(spec.origin), name)
    for name in ("tests/cases/programs", "examples"):  # with bugs in them
        yield str(Path(__file__).parent.parent / name)


def _python_files(paths: list[str]) -> Iterator[str]:
    for path in paths:
        if os.path.isfile(path):
            yield path
        for folder, _, names in os.walk(path):
            files = (os.path.join(folder, name) for name in names if name.endswith(".py"))
            yield from (file for file in files if b"torch" in Path(file).read_bytes())


# Changes: each takes a text and gives back another. Those that work on tokens leave most programs parseable, and so
# reach the analysis; the others are for the way in.


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    tokens: list[tokenize.TokenInfo] = []
    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        tokens.extend(tokenize.generate_tokens(io.StringIO(text).readline))
    kinds = (tokenize.NAME, tokenize.NUMBER, tokenize.STRING, tokenize.OP)
    return [token for token in tokens if token.type in kinds and token.start[0] == token.end[0]]


def _put(text: str, token: tokenize.TokenInfo, new: str) -> str:
    lines = text.splitlines(keepends=True)
    row, left, right = token.start[0] - 1, token.start[1], token.end[1]
    lines[row] = lines[row][:left] + new + lines[row][right:]
    return "".join(lines)


def _delete_token(text: str, rng: random.Random, corpus: Corpus) -> str:
    tokens = _tokens(text)
    return _put(text, rng.choice(tokens), "") if tokens else text


def _double_token(text: str, rng: random.Random, corpus: Corpus) -> str:
    tokens = _tokens(text)
    token = rng.choice(tokens) if tokens else None
    return _put(text, token, f"{token.string} {token.string}") if token else text


def _exchange_token(text: str, rng: random.Random, corpus: Corpus) -> str:
    """Another of the same kind from elsewhere in the text: a name for a name, an operator for an operator."""
    tokens = _tokens(text)
    if not tokens:
        return text
    token = rng.choice(tokens)
    like = [other.string for other in tokens if other.type == token.type]
    return _put(text, token, rng.choice(like))


_OPERATORS = ("=", "+=", "-=", "*=", "@=", "/=", "|=", "//=", "**=", ">>=", ":=")


def _augment(text: str, rng: random.Random, corpus: Corpus) -> str:
    """An assignment becomes an in-place one, or the other way round."""
    tokens = [token for token in _tokens(text) if token.string in _OPERATORS]
    return _put(text, rng.choice(tokens), rng.choice(_OPERATORS)) if tokens else text


def _underscore(text: str, rng: random.Random, corpus: Corpus) -> str:
    """A method becomes its in-place twin, whether there is one or not."""
    names = [token for token in _tokens(text) if token.type == tokenize.NAME]
    token = rng.choice(names) if names else None
    return _put(text, token, f"{token.string.rstrip('_')}_") if token else text


_ODD = (
    "with torch.no_grad():\n{i}    pass\n", "x = y = x\n", "x, *y = y, x\n", "del x\n", "global x\n", "return x\n",
    "yield x\n", "x = [x for x in x]\n", "x[...] = x\n", "x.add_(x)\n", "x = lambda *a, **k: x(*a, **k)\n",
    "while True:\n{i}    x += x\n", "try:\n{i}    x()\n{i}finally:\n{i}    x = x.T\n", "def x(x=x): return x(x)\n",
    "class x(x): x = x\n", "from torch import *\n", "import torch as x\n", "x.x = x\n", "x = torch.zeros(3).data\n",
    "loss = x.exp().sum(); x += 1; loss.backward()\n", "match x:\n{i}    case [*x]: x += 1\n", "nonlocal x\n",
)  # fmt: skip


def _insert_odd(text: str, rng: random.Random, corpus: Corpus) -> str:
    """A statement that is hard on an interpreter, at the depth of the line it comes before."""
    lines = text.splitlines(keepends=True) or [""]
    at = rng.randrange(len(lines))
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())].rstrip("\n")
    names = [token.string for token in _tokens(text) if token.type == tokenize.NAME] or ["x"]
    odd = rng.choice(_ODD).replace("{i}", indent)
    return "".join([*lines[:at], indent + odd.replace("x", rng.choice(["x", rng.choice(names)])), *lines[at:]])


def _drop_lines(text: str, rng: random.Random, corpus: Corpus) -> str:
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines) or 1)
    return "".join(lines[:at] + lines[at + rng.randint(1, 5) :])


def _double_lines(text: str, rng: random.Random, corpus: Corpus) -> str:
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines) or 1)
    piece = lines[at : at + rng.randint(1, 10)]
    return "".join(lines[:at] + piece * rng.choice((2, 2, 3, 20)) + lines[at + len(piece) :])


def _swap_lines(text: str, rng: random.Random, corpus: Corpus) -> str:
    lines = text.splitlines(keepends=True)
    if len(lines) < 2:
        return text
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return "".join(lines)


def _splice(text: str, rng: random.Random, corpus: Corpus) -> str:
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines) or 1)
    return "".join(lines[:at] + corpus.stretch(rng, rng.randint(1, 80)) + lines[at:])


def _truncate(text: str, rng: random.Random, corpus: Corpus) -> str:
    return text[: rng.randrange(len(text) or 1)]


def _flip_bytes(text: str, rng: random.Random, corpus: Corpus) -> str:
    data = bytearray(text.encode())
    for _ in range(rng.choice((1, 2, 10)) if data else 0):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data.decode("utf-8", "replace")


def _nest(text: str, rng: random.Random, corpus: Corpus) -> str:
    """Something very deep or very long."""
    depth = rng.choice((20, 90, 1000))
    shape = rng.choice(("({})", "[{}]", "-{}", "f({})", "{}.x", "{}[0]", "{} + x", "not {}", "lambda: {}"))
    left, right = shape.split("{}")
    return f"{text}\nx = {left * depth}x{right * depth}\n"


_CHANGES: tuple[Callable[[str, random.Random, Corpus], str], ...] = (
    _delete_token, _double_token, _exchange_token, _exchange_token, _exchange_token, _augment, _augment, _underscore,
    _underscore, _insert_odd, _insert_odd, _drop_lines, _double_lines, _swap_lines, _splice, _truncate, _flip_bytes,
    _nest,
)  # fmt: skip


class Lane:
    """Every jobs-th input, in a process that is replaced when it dies or hangs."""

    def __init__(self, corpus: Corpus, options: argparse.Namespace, number: int) -> None:
        self._corpus, self._options, self._next = corpus, options, number
        self.found: list[Found] = []
        self.counts: Counter[str] = Counter()
        self._begin()

    def _begin(self) -> None:
        self._at: Synchronized[int] = multiprocessing.Value("q", self._next)
        self._last = self._next
        self._pipe, sending = multiprocessing.Pipe(duplex=False)
        arguments = (self._corpus, self._options, self._next, self._at, sending)
        self._process = multiprocessing.Process(target=_work, args=arguments, daemon=True)
        self._process.start()
        self._since = self._used()
        sending.close()

    def running(self) -> bool:
        """Takes in what the process has sent, and starts another where it was lost; False when all is done."""
        ended = not self._process.is_alive()
        self._drain()
        at = self._at.value
        used = self._used()
        if at != self._last:
            self._last, self._since = at, used
        if at >= self._options.inputs:
            return not ended
        if ended:
            self._lost(at, "crash", f"the process ended with code {self._process.exitcode}")
        elif used - self._since > self._options.limit + GRACE:
            self._process.kill()
            self._lost(at, "hang", "not even the alarm was heeded")
        return True

    def _used(self) -> float:
        """Seconds of processor time that the process has had; on the clock, where the system does not tell."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return time.monotonic()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _drain(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while self._pipe.poll():
                message: Any = self._pipe.recv()
                if isinstance(message, Found):
                    self.found.append(message)
                else:
                    self.counts.update(message)

    def _lost(self, at: int, how: str, detail: str) -> None:
        self._process.join()
        self.found.append(Found(at, how, detail))
        self._next = at + self._options.jobs
        self._begin()

    def stop(self) -> None:
        self._drain()
        if self._process.is_alive():
            self._process.terminate()
        self._process.join()
        self._drain()


def _work(corpus: Corpus, options: argparse.Namespace, start: int, at: Synchronized[int], pipe: Any) -> None:
    signal.signal(signal.SIGPROF, _alarm)
    counts: Counter[str] = Counter()
    for index in range(start, options.inputs, options.jobs):
        at.value = index
        found, what = run_one(corpus.input(options.seed, index), index, options.limit)
        counts[what] += 1
        if found:
            pipe.send(found)
        if sum(counts.values()) >= 50:
            pipe.send(counts)
            counts = Counter()
    pipe.send(counts)
    at.value = options.inputs


def _alarm(number: int, frame: Any) -> None:
    raise Hang


def run_one(text: str, index: int, limit: float) -> tuple[Found | None, str]:
    """One input through the analysis: how it failed, if it did, and what became of it."""
    from outplace.source.analysis import check_file
    from outplace.source.project import Project

    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        checked = check_file(f"/fuzz/input_{index}.py", text, Project())
    except Hang:
        return Found(index, "hang", _spot(sys.exc_info()[2])), "hang"
    except Exception as error:
        detail = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}{_spot(error.__traceback__)}"
        return Found(index, "crash", detail), "crash"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if checked.error:
        return None, "refused"
    return None, "findings" if checked.findings else "clean"


def _spot(trace: Any) -> str:
    frames = traceback.extract_tb(trace)
    own = [frame for frame in frames if "outplace" in frame.filename] or frames[-1:]
    return "".join(f" at {os.path.basename(frame.filename)}:{frame.lineno}" for frame in own[-1:])


def _only(corpus: Corpus, seed: int, index: int, limit: float) -> int:
    """The input itself on stdout, and the traceback of what it does on stderr."""
    from outplace.source.analysis import check_file
    from outplace.source.project import Project

    text = corpus.input(seed, index)
    print(text)
    signal.signal(signal.SIGPROF, _alarm)
    signal.setitimer(signal.ITIMER_PROF, limit)
    checked = check_file(f"/fuzz/input_{index}.py", text, Project())
    signal.setitimer(signal.ITIMER_PROF, 0)
    print(f"error: {checked.error}; {len(checked.findings)} findings", file=sys.stderr)
    return 0


def _tell(lanes: list[Lane], seed: int, seconds: float) -> int:
    counts = sum((lane.counts for lane in lanes), Counter[str]())
    found = sorted((found for lane in lanes for found in lane.found), key=lambda found: found.index)
    done = ", ".join(f"{counts[what]:,} {what}" for what in ("clean", "findings", "refused", "crash", "hang"))
    print(f"{counts.total():,} inputs in {seconds:.0f} s: {done}")
    by_detail: dict[tuple[str, str], list[int]] = {}
    for failure in found:
        by_detail.setdefault((failure.how, failure.detail), []).append(failure.index)
    for (how, detail), indexes in sorted(by_detail.items(), key=lambda item: -len(item[1])):
        print(f"{how} x{len(indexes)}: {detail}  (--seed {seed} --only {indexes[0]})")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
