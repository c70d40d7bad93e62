"""Runs the test suite of another project with and without outplace, and compares every test.

    python benchmarks/peers.py FOLDER [--python PYTHON] [--path FOLDER...] [--keep FOLDER] [-- PYTEST ARGUMENTS]

pytest runs in FOLDER four times: plain, plain again, with `--outplace`, and with `OUTPLACE=1`. Python's, numpy's and
torch's random numbers start from one seed before each test. For every test these must be equal: the outcome of each
phase, the message of a failure, what it prints, and its warnings with their lines. Where the two plain runs differ,
the test is unsteady by itself, and is not compared. Each report of outplace is listed, too: look at it, because it is
either a bug of that project or a bug of outplace.

Times are CPU times of pytest and its child processes. Ratios are to the second plain run, because the first one fills
caches. PYTHON must have outplace, the project's requirements and
`outplace.pth`. `--path` names folders that go in front of Python's path, such as the checkout itself: then the
library's own files are recorded as the user's. Nothing of the project is changed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WAYS: dict[str, tuple[list[str], dict[str, str]]] = {
    "plain": ([], {}),
    "plain again": ([], {}),
    "--outplace": (["--outplace"], {}),
    "OUTPLACE=1": ([], {"OUTPLACE": "1"}),
}
"""The arguments and the environment of each run."""

PLUGIN = """
import json, os, random, sys, time
import pytest

_SEED = 20260101
_tests, _warnings, _reports, _known = {}, [], [], set()


def _entry(test):
    return _tests.setdefault(test, {"phases": [], "cpu_s": 0.0})


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    random.seed(_SEED)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(_SEED)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(_SEED)
    start = time.process_time()
    result = yield
    _entry(item.nodeid)["cpu_s"] = time.process_time() - start
    _note_reports(item.nodeid)
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
    if report.outcome != "passed":
        phase = ["collect", report.outcome, "", str(report.longrepr), []]
        _entry(f"collection of {report.nodeid}")["phases"].append(phase)


def pytest_warning_recorded(warning_message, when, nodeid, location):
    where = f"{os.path.basename(warning_message.filename)}:{warning_message.lineno}"
    _warnings.append([nodeid, warning_message.category.__name__, where, str(warning_message.message)])


def pytest_unconfigure():
    _note_reports("after the tests")
    with open(os.environ["PEERS_RESULT"], "w") as file:
        json.dump({"tests": _tests, "warnings": _warnings, "reports": _reports}, file)
"""


@dataclass
class Run:
    """What one run of the suite gave."""

    tests: dict[str, Any] = field(default_factory=dict)
    warnings: list[list[str]] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)
    cpu_s: float = 0.0
    exit_code: int = 0
    output: str = ""

    def essences(self) -> dict[str, str]:
        """What is compared of each test, as text. Addresses of objects are left out."""
        all_warnings: dict[str, list[list[str]]] = {}
        for test, *warning in self.warnings:
            all_warnings.setdefault(test, []).append(warning)
        names = self.tests.keys() | all_warnings.keys()
        parts = {name: (self.tests.get(name, {}).get("phases"), all_warnings.get(name)) for name in names}
        return {name: _ADDRESS.sub("0x", json.dumps(part, indent=1)) for name, part in parts.items()}

    def counts(self) -> dict[str, int]:
        """How many tests passed, failed and were skipped."""
        outcomes = [{phase[1] for phase in test["phases"]} for test in self.tests.values()]
        failed = sum("failed" in outcome for outcome in outcomes)
        skipped = sum("skipped" in outcome for outcome in outcomes)
        return {"passed": len(outcomes) - failed - skipped, "failed": failed, "skipped": skipped}


_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")


def main() -> int:
    """Run the suite and print the table."""
    options = _options()
    with tempfile.TemporaryDirectory() as options.bytecode:  # outplace's own files are compiled once, as usual
        runs = {way: _kept(way, options) or _run(way, options) for way in WAYS}
    for way, run in runs.items():
        if not run.tests:
            print(run.output[-4000:])
            print(f"{way}: no test was run (exit code {run.exit_code})", file=sys.stderr)
            return 2
    plain, again = runs["plain"].essences(), runs["plain again"].essences()
    unsteady = set(_different(plain, again))
    result: dict[str, Any] = {"unsteady": sorted(unsteady), "ways": {}}
    for way, run in runs.items():
        essences = run.essences()
        different = [test for test in _different(plain, essences) if test not in unsteady]
        if options.show and not way.startswith("plain"):
            _show(way, different, plain, essences, run)
        result["ways"][way] = {
            **run.counts(),
            "warnings": len(run.warnings),
            "different": different,
            "reports": run.reports,
            "cpu_s": round(run.cpu_s, 1),
            "ratio": round(run.cpu_s / runs["plain again"].cpu_s, 2),
            "slower": list(_slower(runs["plain again"], run)),
        }
    _print_table(options.name or options.folder.resolve().name, result)
    return int(any(way["different"] for way in result["ways"].values()))


def _options() -> argparse.Namespace:
    arguments = sys.argv[1:]
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder in which pytest is started")
    parser.add_argument("--python", default=sys.executable, help="the Python that runs pytest")
    parser.add_argument("--path", type=Path, nargs="+", default=[], metavar="FOLDER", help="goes into PYTHONPATH")
    parser.add_argument("--name", help="the name in the table; else that of the folder")
    parser.add_argument("--limit", type=float, default=1800, metavar="SECONDS", help="for each run (1800)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep each run here, and use those that are here")
    parser.add_argument("--show", action="store_true", help="print each difference and each report")
    options = parser.parse_args(arguments[:cut])
    options.pytest_arguments = arguments[cut + 1 :]
    return options


def _kept(way: str, options: argparse.Namespace) -> Run | None:
    path = options.keep and options.keep / f"{way}.json"
    return Run(**json.loads(path.read_text(encoding="utf-8"))) if path and path.exists() else None


def _run(way: str, options: argparse.Namespace) -> Run:
    arguments, variables = WAYS[way]
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "peers_plugin.py").write_text(PLUGIN, encoding="utf-8")
        result, output = Path(scratch, "result.json"), Path(scratch, "output.txt")
        path = os.pathsep.join([str(folder.resolve()) for folder in options.path] + [scratch])
        threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        bytecode = {"PYTHONPYCACHEPREFIX": str(options.bytecode), "PYTHONDONTWRITEBYTECODE": ""}
        fixed = {"PYTHONPATH": path, **bytecode, "PYTHONHASHSEED": "0", "PEERS_RESULT": str(result), **threads}
        command = [options.python, "-m", "pytest", "-p", "peers_plugin", "-p", "no:randomly", "-p", "no:cacheprovider"]
        command += [*arguments, *options.pytest_arguments]
        start = time.monotonic()
        with output.open("wb") as file:
            process = subprocess.Popen(
                command,
                cwd=options.folder,
                env={**os.environ, **fixed, **variables},
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
            usage = _wait(process, options.limit)
        run = Run(cpu_s=usage, exit_code=process.returncode, output=output.read_text(errors="replace"))
        if result.exists():
            found = json.loads(result.read_text(encoding="utf-8"))
            run.tests, run.warnings, run.reports = found["tests"], found["warnings"], found["reports"]
    if options.keep and run.tests:
        options.keep.mkdir(parents=True, exist_ok=True)
        (options.keep / f"{way}.json").write_text(json.dumps(vars(run)), encoding="utf-8")
    passed = f"{run.counts()['passed']} of {len(run.tests)} tests passed"
    print(f"{way}: {passed}, {run.cpu_s:.0f} s of CPU, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return run


def _wait(process: subprocess.Popen[bytes], limit: float) -> float:
    """Waits for a process, and stops it at the limit. Gives its CPU time and that of its children."""
    end = time.monotonic() + limit
    while True:
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if ended:
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage.ru_utime + usage.ru_stime
        if time.monotonic() > end:
            process.kill()
        time.sleep(0.2)


def _different(one: dict[str, str], other: dict[str, str]) -> list[str]:
    return sorted(test for test in one.keys() | other.keys() if one.get(test) != other.get(test))


def _slower(plain: Run, run: Run, count: int = 5) -> Iterator[str]:
    """The tests whose CPU time grew most."""
    grown = {test: entry["cpu_s"] - plain.tests.get(test, entry)["cpu_s"] for test, entry in run.tests.items()}
    for test in sorted(grown, key=grown.__getitem__, reverse=True)[:count]:
        yield f"{test}: + {grown[test]:.2f} s on {run.tests[test]['cpu_s'] - grown[test]:.2f} s"


def _show(way: str, different: Iterable[str], plain: dict[str, str], essences: dict[str, str], run: Run) -> None:
    import difflib

    for test in different:
        print(f"\n{way}: {test}")
        before, after = (each.get(test, "").splitlines() for each in (plain, essences))
        print("\n".join(line[:2000] for line in difflib.unified_diff(before, after, "plain", way, lineterm="", n=1)))
    for report in run.reports:
        print(f"\n{way}: {report['code']} in {report['test']}: {report['error']} {report['writes']}")
    for line in run.output.splitlines():
        if line.startswith("outplace:"):
            print(f"\n{way}: {line}")


def _print_table(name: str, result: dict[str, Any]) -> None:
    print(f"\n{name}: {len(result['unsteady'])} tests are unsteady by themselves\n")
    print("| run | passed | failed | skipped | warnings | differences | reports | CPU s | ratio |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for way, row in result["ways"].items():
        counts = f"{row['passed']} | {row['failed']} | {row['skipped']} | {row['warnings']}"
        found = f"{len(row['different'])} | {len(row['reports'])} | {row['cpu_s']} | {row['ratio']:.2f}"
        print(f"| {way} | {counts} | {found} |")
    for way, row in result["ways"].items():
        print("\n".join(f"{way}: {line}" for line in row["slower"] if not way.startswith("plain")))


if __name__ == "__main__":
    sys.exit(main())
