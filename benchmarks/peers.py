"""Runs test suites of other projects with and without outplace, and compares every test.

    python benchmarks/peers.py FOLDER [--path FOLDER...] [-- TESTS...]
    python benchmarks/peers.py --suites SUITES.json [--only NAME...] [--jobs 16] [--minutes 7] [--results FOLDER]

Each test runs three times: plain, with `--outplace`, and with `OUTPLACE=1`. Python's, numpy's and torch's random
numbers start from one seed before each test. For every test these must be equal: the outcome of each phase, the
message of a failure, what it prints, and its warnings with their lines. Where one differs, the test runs plain again,
up to four times: if it differs from itself, it is unsteady, and is not compared. Each report of outplace is listed,
too: look at it, because it is either a bug of that project or a bug of outplace.

The tests are divided into parts, which run side by side (`--jobs`). `--minutes` is a limit for all: the parts are taken
in a random order, in turns from each suite, so what has run by then is a sample of the whole. `--most` takes so many
tests of each file, evenly spread. Times are CPU times of pytest and its child processes.

SUITES.json is a list of objects: `name`, `folder` (where pytest is started), `path` (folders that go in front of
Python's path, such as the checkout itself: then the library's own files are recorded as the user's), `tests` (files
and folders), `arguments` (of pytest), `environment`, and `part` (tests in one process, at most). Folders are relative
to the file. PYTHON must have outplace with `outplace.pth`, and the requirements of the projects. Nothing of a project
is changed.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PLAIN, AGAIN = "plain", "plain again"
WAYS: dict[str, tuple[list[str], dict[str, str]]] = {
    PLAIN: ([], {}),
    "--outplace": (["--outplace"], {}),
    "OUTPLACE=1": ([], {"OUTPLACE": "1"}),
}
"""The arguments and the environment of each run."""
STOP = 45.0
"""Seconds after which a plain run starts no further test. The rest becomes another part."""
MOST_AGAIN = 4
"""Plain runs of a test that differs: one that differs from itself only now and then needs several to show it."""

PLUGIN = """
import json, os, random, sys, time
import pytest

_SEED = 20260101
_tests, _warnings, _reports, _known, _collected, _broken = {}, [], [], set(), [], {}
_wanted = os.environ.get("PEERS_TESTS")
_end = time.monotonic() + float(os.environ["PEERS_STOP"])


def _seed():
    random.seed(_SEED)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(_SEED)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(_SEED)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    if _wanted:
        with open(_wanted) as file:
            wanted = set(json.load(file))
        items[:] = [item for item in items if item.nodeid in wanted]
    _collected.extend(item.nodeid for item in items)


def _entry(test):
    return _tests.setdefault(test, {"phases": [], "cpu_s": 0.0})


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    _seed()
    start = time.process_time()
    result = yield
    _entry(item.nodeid)["cpu_s"] = time.process_time() - start
    _note_reports(item.nodeid)
    if time.monotonic() > _end:
        item.session.shouldstop = "the time is over"
    return result


def _note_reports(test):
    dispatch = sys.modules.get("outplace.runtime.errors.dispatch")
    for diagnosis in list(dispatch.found) if dispatch else ():
        if id(diagnosis) not in _known:
            _known.add(id(diagnosis))
            sites = [mutation.site for mutation in diagnosis.mutations]
            where = [f"{site.file}:{site.line}" for site in sites if site is not None]
            _reports.append({"test": test, "code": diagnosis.code, "error": diagnosis.error, "writes": where})


def pytest_runtest_logreport(report):
    crash = getattr(report.longrepr, "reprcrash", None)
    message = crash.message if crash else "" if report.longrepr is None else str(report.longrepr)[-2000:]
    expected = "xfail" if hasattr(report, "wasxfail") else ""
    printed = [text for title, text in report.sections if title.startswith("Captured")]
    _entry(report.nodeid)["phases"].append([report.when, report.outcome, expected, message, printed])


def pytest_collectreport(report):
    if report.failed:
        _broken[report.nodeid] = str(report.longrepr)[-300:]


def pytest_warning_recorded(warning_message, when, nodeid, location):
    where = f"{os.path.basename(warning_message.filename)}:{warning_message.lineno}"
    _warnings.append([nodeid, warning_message.category.__name__, where, str(warning_message.message)])


def pytest_unconfigure():
    _note_reports("after the tests")
    all_of_it = {"tests": _tests, "warnings": _warnings, "reports": _reports, "collected": _collected}
    with open(os.environ["PEERS_RESULT"], "w") as file:
        json.dump({**all_of_it, "broken": _broken}, file)


_seed()
"""


@dataclass
class Suite:
    """The tests of a project."""

    name: str
    folder: Path
    path: list[Path] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    part: int = 200
    """Tests that run in one process, at most."""


@dataclass
class Run:
    """What one run of some tests gave."""

    tests: dict[str, Any] = field(default_factory=dict)
    warnings: list[list[str]] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)
    collected: list[str] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    """The files that could not be imported, and why."""
    cpu_s: float = 0.0
    exit_code: int = 0
    output: str = ""

    def essences(self) -> dict[str, str]:
        """What is compared of each test, as text. Addresses of objects are left out."""
        warned: dict[str, list[list[str]]] = {}
        for test, *warning in self.warnings:
            warned.setdefault(test, []).append(warning)
        parts = {name: (test["phases"], warned.get(name)) for name, test in self.tests.items()}
        return {name: _ADDRESS.sub("0x", json.dumps(part, indent=1)) for name, part in parts.items()}

    def outcome(self, test: str) -> str:
        """`passed`, `failed`, `skipped`, or `missing`."""
        outcomes = {phase[1] for phase in self.tests.get(test, {"phases": ()})["phases"]} or {"missing"}
        return next(each for each in ("failed", "skipped", "missing", "passed") if each in outcomes)


_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")


@dataclass
class Result:
    """What all runs of a suite gave."""

    chosen: int = 0
    broken: dict[str, str] = field(default_factory=dict)
    tests: dict[str, dict[str, Any]] = field(default_factory=dict)
    """For each test and way: the outcome and the seconds."""
    differences: list[dict[str, str]] = field(default_factory=list)
    unsteady: set[str] = field(default_factory=set)
    reports: list[dict[str, Any]] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    """Lines that outplace prints about itself, and runs that did not end."""
    cpu_s: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)


class Peers:
    """Runs the parts of all suites, side by side."""

    def __init__(self, suites: list[Suite], options: argparse.Namespace, scratch: Path) -> None:
        self.suites, self.options, self.scratch = suites, options, scratch
        self.results = {suite.name: Result() for suite in suites}
        self.end = time.monotonic() + 60 * options.minutes
        self._lock = threading.Lock()
        self._queue: list[tuple[Suite, list[str]]] = []
        self._count = 0
        (scratch / "peers_plugin.py").write_text(PLUGIN, encoding="utf-8")

    def run(self) -> None:
        """Collects all tests, and runs them until the time is over."""
        with ThreadPoolExecutor(self.options.jobs) as pool:
            parts = list(pool.map(self._collected, self.suites))
            turns = (max(map(len, parts)) - 1) or 1
            placed = [(i / (len(own) or 1) * turns, part) for own in parts for i, part in enumerate(own)]
            self._queue = [part for _, part in sorted(placed, key=lambda each: each[0])]
            list(pool.map(lambda _: self._work(), range(self.options.jobs)))

    def _collected(self, suite: Suite) -> list[tuple[Suite, list[str]]]:
        run = self._run(suite, PLAIN, ["--collect-only", "-q"], None)
        by_file: dict[str, list[str]] = {}
        for test in dict.fromkeys(run.collected):
            by_file.setdefault(test.partition("::")[0], []).append(test)
        chosen = [test for tests in by_file.values() for test in self._most(tests)]
        with self._lock:
            self.results[suite.name].chosen, self.results[suite.name].broken = len(chosen), run.broken
        if not chosen:
            self.results[suite.name].messages.append(f"no tests (exit code {run.exit_code}): {run.output[-2000:]}")
        parts = [(suite, chosen[i : i + suite.part]) for i in range(0, len(chosen), suite.part)]
        random.Random(suite.name).shuffle(parts)
        print(f"{suite.name}: {len(run.collected)} tests, {len(chosen)} chosen, {len(parts)} parts", flush=True)
        for name, why in run.broken.items():
            print(f"  {name}: {why.strip().splitlines()[-1]}", flush=True)
        return parts

    def _most(self, tests: list[str]) -> list[str]:
        count = min(self.options.most or len(tests), len(tests))
        return [tests[i * len(tests) // count] for i in range(count)]

    def _work(self) -> None:
        while time.monotonic() < self.end:
            with self._lock:
                if not self._queue:
                    return
                suite, tests = self._queue.pop(0)
            try:
                self._part(suite, tests)
            except Exception as error:  # the other parts go on
                self.results[suite.name].messages.append(f"{type(error).__name__}: {error}")

    def _part(self, suite: Suite, tests: list[str]) -> None:
        result = self.results[suite.name]
        runs = {PLAIN: self._run(suite, PLAIN, [], tests, STOP)}
        done = [test for test in tests if test in runs[PLAIN].tests]
        rest = [test for test in tests if test not in runs[PLAIN].tests]
        if not done:
            if time.monotonic() < self.end:
                result.messages.append(
                    f"{PLAIN}: not ended, {len(tests)} tests from {tests[0]}: {runs[PLAIN].output[-500:]}"
                )
            return
        if rest:
            with self._lock:
                self._queue.insert(0, (suite, rest))
        for way in list(WAYS)[1:]:
            runs[way] = self._run(suite, way, [], done)
        if time.monotonic() > self.end:  # the last runs may have been stopped
            return
        essences = {way: run.essences() for way, run in runs.items()}
        different = {(way, test) for way in runs for test in done if essences[way].get(test) != essences[PLAIN][test]}
        unsteady: set[str] = set()
        for turn in range(MOST_AGAIN):
            asked = {test for _, test in different} - unsteady
            if asked:
                again = self._run(suite, PLAIN, [], done if turn == 0 else [test for test in done if test in asked])
                unsteady |= {test for test in asked if again.essences().get(test) != essences[PLAIN][test]}
        times = ", ".join(f"{run.cpu_s:.0f}" for run in runs.values())
        left = f"{len(self._queue)} parts left"
        print(f"{suite.name}: {len(done)} tests in {times} s, {left}", file=sys.stderr, flush=True)
        with self._lock:
            _add(result, runs, done, essences, {each for each in different if each[1] not in unsteady})
            result.unsteady |= unsteady

    def _run(self, suite: Suite, way: str, arguments: list[str], tests: list[str] | None, stop: float = 1e9) -> Run:
        with self._lock:
            self._count += 1
            folder = self.scratch / f"run{self._count}"
        folder.mkdir()
        result, output = folder / "result.json", folder / "output.txt"
        more, variables = WAYS[way]
        fixed = {
            "PYTHONPATH": os.pathsep.join([*map(str, suite.path), str(self.scratch), *_inherited()]),
            "PYTHONPYCACHEPREFIX": str(self.scratch / "bytecode"),
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONHASHSEED": "0",
            "PEERS_RESULT": str(result),
            "PEERS_STOP": str(stop),
            **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")},
        }
        command = [self.options.python, "-m", "pytest", "-p", "peers_plugin", "-p", "no:randomly"]
        command += [
            f"--rootdir={suite.folder}",
            "-p",
            "no:cacheprovider",
            "--continue-on-collection-errors",
            *more,
            *arguments,
            *suite.arguments,
        ]
        if tests is not None:
            (folder / "tests.json").write_text(json.dumps(tests), encoding="utf-8")
            fixed["PEERS_TESTS"] = str(folder / "tests.json")
            command += list(dict.fromkeys(test.partition("::")[0] for test in tests))
        else:
            command += suite.tests
        with output.open("wb") as file:
            process = subprocess.Popen(
                command,
                cwd=suite.folder,
                env={**os.environ, **suite.environment, **fixed, **variables},
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
            usage = _wait(process, min(time.monotonic() + self.options.limit, self.end + 5))
        run = Run(cpu_s=usage, exit_code=process.returncode, output=output.read_text(errors="replace"))
        if result.exists():
            found = json.loads(result.read_text(encoding="utf-8"))
            for name, value in found.items():
                setattr(run, name, value)
        return run


def _inherited() -> list[str]:
    return [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]


def _add(
    result: Result,
    runs: dict[str, Run],
    done: list[str],
    essences: dict[str, dict[str, str]],
    different: set[tuple[str, str]],
) -> None:
    for test in done:
        seconds = {way: round(run.tests.get(test, {"cpu_s": 0})["cpu_s"], 3) for way, run in runs.items()}
        result.tests[test] = {"outcomes": {way: run.outcome(test) for way, run in runs.items()}, "cpu_s": seconds}
    for way, test in sorted(different):
        lines = (essences[PLAIN][test].splitlines(), essences[way].get(test, "").splitlines())
        text = "\n".join(line[:500] for line in difflib.unified_diff(*lines, PLAIN, way, lineterm="", n=1))
        result.differences.append({"way": way, "test": test, "difference": text[:4000]})
    for way, run in runs.items():
        result.cpu_s[way] += run.cpu_s
        result.warnings[way] += len(run.warnings)
        result.reports += [{"way": way, **report} for report in run.reports]
        result.messages += [f"{way}: {line}" for line in run.output.splitlines() if line.startswith("outplace:")]
        if not run.tests:
            result.messages.append(_not_ended(way, done, run))


def _not_ended(way: str, tests: list[str], run: Run) -> str:
    return f"{way}: not ended, {len(tests)} tests from {tests[0]}: {run.output[-500:]}"


def _wait(process: subprocess.Popen[bytes], end: float) -> float:
    """Waits for a process, and stops it at the end. Gives its CPU time and that of its children."""
    while True:
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if ended:
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage.ru_utime + usage.ru_stime
        if time.monotonic() > end:
            process.kill()
        time.sleep(0.1)


def main() -> int:
    """Run the suites and print the table."""
    options = _options()
    suites = _suites(options)
    with tempfile.TemporaryDirectory() as folder:  # with the bytecode: outplace's own files are compiled once, as usual
        peers = Peers(suites, options, Path(folder))
        peers.run()
    for name, result in peers.results.items():
        _show(name, result, options.show)
        if options.results:
            options.results.mkdir(parents=True, exist_ok=True)
            written = json.dumps({**vars(result), "unsteady": sorted(result.unsteady)}, indent=0)
            (options.results / f"{name}.json").write_text(written, encoding="utf-8")
    _print_table(peers.results)
    return int(any(result.differences or not result.tests for result in peers.results.values()))


def _options() -> argparse.Namespace:
    arguments = sys.argv[1:]
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="the folder in which pytest is started")
    parser.add_argument("--path", type=Path, nargs="+", default=[], metavar="FOLDER", help="goes into PYTHONPATH")
    parser.add_argument("--suites", type=Path, metavar="FILE", help="several suites, as JSON")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these of the suites")
    parser.add_argument("--python", default=sys.executable, help="the Python that runs pytest")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side (1)")
    parser.add_argument("--minutes", type=float, default=120, help="for all (120)")
    parser.add_argument("--limit", type=float, default=600, metavar="SECONDS", help="for each run (600)")
    parser.add_argument("--most", type=int, metavar="N", help="tests of each file")
    parser.add_argument("--results", type=Path, metavar="FOLDER", help="write what each test gave here")
    parser.add_argument("--show", action="store_true", help="print each difference, report and message")
    options = parser.parse_args(arguments[:cut])
    options.pytest_arguments = arguments[cut + 1 :]
    if (options.folder is None) == (options.suites is None):
        parser.error("name a folder or a file of suites")
    return options


def _suites(options: argparse.Namespace) -> list[Suite]:
    if options.folder:
        path = [each.resolve() for each in options.path]
        return [Suite(options.folder.resolve().name, options.folder, path, options.pytest_arguments)]
    start = options.suites.resolve().parent
    suites = []
    for each in json.loads(options.suites.read_text(encoding="utf-8")):
        path = [start / folder for folder in each.get("path", ())]
        more = {name: each[name] for name in ("tests", "arguments", "environment", "part") if name in each}
        if not options.only or each["name"] in options.only:
            suites.append(Suite(each["name"], start / each["folder"], path, **more))
    return suites


def _show(name: str, result: Result, whole: bool) -> None:
    for line in _lines(result) if whole else ():
        print(f"\n{name}: {line}")
    grown = {test: max(entry["cpu_s"].values()) - entry["cpu_s"][PLAIN] for test, entry in result.tests.items()}
    for test in sorted(grown, key=grown.__getitem__, reverse=True)[:3]:
        print(f"{name}: + {grown[test]:.2f} s on {result.tests[test]['cpu_s'][PLAIN]:.2f} s: {test}")


def _lines(result: Result) -> Iterator[str]:
    for each in result.differences:
        yield f"{each['way']}: {each['test']}\n{each['difference']}"
    for each in result.reports:
        yield f"{each['way']}: {each['code']} in {each['test']}: {each['error']} {each['writes']}"
    yield from dict.fromkeys(result.messages)


def _print_table(results: dict[str, Result]) -> None:
    print("\n| suite | tests | of | passed | failed | skipped | not imported | unsteady ", end="")
    print("| differences | reports | messages | warnings | CPU s | " + " | ".join(list(WAYS)[1:]) + " |")
    print("|---|" + "--:|" * (12 + len(WAYS) - 1))
    for name, result in results.items():
        outcomes = Counter(entry["outcomes"][PLAIN] for entry in result.tests.values())
        cells = [name, len(result.tests), result.chosen, *(outcomes[each] for each in ("passed", "failed", "skipped"))]
        cells += [len(result.broken), len(result.unsteady)]
        for found in (
            Counter(each["way"] for each in result.differences),
            Counter(each["way"] for each in result.reports),
        ):
            cells.append(" / ".join(str(found[way]) for way in list(WAYS)[1:]))
        cells += [len(set(result.messages)), " / ".join(str(result.warnings[way]) for way in WAYS)]
        cells.append(f"{result.cpu_s[PLAIN]:.0f}")
        cells += [f"{result.cpu_s[way] / (result.cpu_s[PLAIN] or 1):.2f}" for way in list(WAYS)[1:]]
        print("| " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    sys.exit(main())
