"""How long `outplace check` takes, beside other tools on the same tree in the same run.

    python benchmarks/check_speed.py [PATHS...] [--skip torchfix] [--timeout 900] [--json FILE]

The others are those on the PATH: ruff, flake8, torchfix. Without paths: the Python files of the installed torch. CPU
seconds are user and system time of the process and all its children, which a busy machine changes little; the wall
clock is given beside them. Memory is the highest sum over the process and its children of what each holds for itself
plus its part of what they share (PSS), read every 20 ms; short runs can end between two readings, so the largest single
process by the kernel's own count is the least that is shown.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(sys.executable).parent


@dataclass(frozen=True)
class Measured:
    """One tool on the tree."""

    name: str
    cpu: float
    wall: float
    memory: float
    """Megabytes."""
    exit_code: int | None
    """None where the time ran out."""


_SMALL = b"import torch\nw = torch.ones(3, requires_grad=True)\ny = w.exp()\ny += 1\ny.sum().backward()\n"
"""A program with a finding, so that everything there is to load gets loaded once."""


def main() -> None:
    options = _options()
    paths = [os.path.abspath(path) for path in options.paths] or list(_torch_folders())
    files = sorted(_python_files(paths))
    lines = sum(Path(file).read_bytes().count(b"\n") for file in files)
    print(f"{len(files)} files, {lines:,} lines, Python {sys.version.split()[0]}, {os.cpu_count()} cores", flush=True)
    rows: list[Measured] = []
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed tool is compiled once, not at each start
        os.environ["PYTHONPYCACHEPREFIX"] = os.path.join(scratch, "compiled")
        subprocess.run([sys.executable, "-m", "outplace", "check", "-"], input=_SMALL, capture_output=True, check=False)
        for name, command in _commands(paths, files, scratch):
            if not any(skipped in name.lower() for skipped in options.skip):
                rows.append(_measure(name, command, options.timeout))
                print(_row(rows[-1], rows[0]), flush=True)
    if options.json:
        about = {"files": len(files), "lines": lines, "rows": [asdict(row) for row in rows]}
        Path(options.json).write_text(json.dumps(about, indent=2) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="PATHS")
    parser.add_argument("--skip", action="append", default=[], metavar="TOOL", help="leave out, e.g. torchfix")
    parser.add_argument("--timeout", type=float, default=900, metavar="SECONDS", help="for each tool")
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE as well")
    parser.add_argument("--parse", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.parse:
        _parse(options.parse)
        sys.exit(0)
    return options


def _torch_folders() -> Iterator[str]:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        sys.exit("torch is not installed; give the paths to check")
    yield os.path.dirname(spec.origin)


def _python_files(paths: list[str]) -> Iterator[str]:
    for path in paths:
        if os.path.isfile(path):
            yield path
        for folder, _, names in os.walk(path):
            yield from (os.path.join(folder, name) for name in names if name.endswith(".py"))


def _parse(listed: str) -> None:
    """The yardstick: `ast.parse` of every file and nothing else."""
    warnings.simplefilter("ignore")
    for file in Path(listed).read_text().splitlines():
        try:
            ast.parse(Path(file).read_bytes())
        except (SyntaxError, ValueError):
            continue


def _commands(paths: list[str], files: list[str], scratch: str) -> Iterator[tuple[str, list[str]]]:
    listed = os.path.join(scratch, "files.txt")
    Path(listed).write_text("\n".join(files))
    yield "ast.parse alone", [sys.executable, __file__, "--parse", listed]
    outplace = [sys.executable, "-m", "outplace", "check", "--isolated", "--quiet", "--output-format", "concise"]
    cache = ["--cache-dir", os.path.join(scratch, "cache")]
    yield "outplace cold, one process", [*outplace, "--no-cache", "--jobs", "1", *paths]
    yield "outplace cold", [*outplace, *cache, *paths]
    yield "outplace cached", [*outplace, *cache, *paths]
    yield "outplace one file", [*outplace, "--no-cache", _median(files)]
    others = {
        "ruff": ["check", "--no-cache", "--quiet", "--isolated", "--exit-zero"],
        "flake8": ["--isolated", "--quiet"],
        "torchfix": ["--select=ALL"],
    }
    for name, arguments in others.items():
        tool = shutil.which(name, path=f"{HERE}{os.pathsep}{os.environ['PATH']}")
        if tool:
            yield name, [tool, *arguments, *paths]


def _median(files: list[str]) -> str:
    """A file of middling size, with torch in it."""
    sized = sorted((os.path.getsize(file), file) for file in files if b"torch" in Path(file).read_bytes())
    return sized[len(sized) // 2][1] if sized else files[0]


def _measure(name: str, command: list[str], timeout: float) -> Measured:
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    watch = _Watch(child.pid)
    timer = threading.Timer(timeout, lambda: os.killpg(child.pid, 9))
    timer.start()
    _, status, usage = os.wait4(child.pid, 0)
    timed_out = not timer.is_alive()
    timer.cancel()
    wall = time.perf_counter() - start
    code = None if timed_out else os.waitstatus_to_exitcode(status)
    child.returncode = code or 0  # it is reaped: Popen must not wait for it again
    return Measured(name, usage.ru_utime + usage.ru_stime, wall, max(watch.stop(), _peak(usage)), code)


def _peak(usage: resource.struct_rusage) -> float:
    """The largest single process, in megabytes."""
    return usage.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


class _Watch(threading.Thread):
    """Reads the memory of a process and its children until it is stopped."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid, self._highest = pid, 0.0
        self._over = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._over.wait(0.02):
            self._highest = max(self._highest, sum(map(_pss, _family(self._pid))))

    def stop(self) -> float:
        self._over.set()
        self.join()
        return self._highest


def _family(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _family(int(child))


def _pss(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1e3


def _row(row: Measured, first: Measured) -> str:
    if row.exit_code is None:  # what its killed children had used is not known
        return f"{row.name:<27}out of time after {row.wall:.0f} s wall"
    times = f"{row.cpu / first.cpu:7.1f} x" if first.cpu else ""
    note = "" if row.exit_code in (0, 1) else f"  (exit {row.exit_code})"
    return f"{row.name:<27}{row.cpu:9.2f} s CPU{times}{row.wall:9.2f} s wall{row.memory:8.0f} MB{note}"


if __name__ == "__main__":
    main()
