"""Tries outplace with other versions of torch and Python: an environment for each row, and the tests that matter there.

    python tools/matrix.py                     every row whose Python is found here, one after the other (`make matrix`)
    python tools/matrix.py 2.15.0/3.14         this row
    python tools/matrix.py --list              the rows, and where their Pythons are
    python tools/matrix.py --table             the results so far, as a table

A row takes about 5 GB of disk and a quarter of an hour, because torch brings its CUDA packages. Its environment is
removed afterwards, unless `--keep` is given. Results are added to build/matrix/results.json.
A Python is looked for on the PATH, in pyenv and with uv. PYTHON_3_14=/some/python names one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "matrix"
RESULTS = FOLDER / "results.json"
ROWS = (
    ("2.6.0", "3.10"),
    ("2.9.0", "3.12"),
    ("2.11.0", "3.13"),
    ("2.13.0", "3.11"),
    ("2.15.0", "3.14"),
)
"""torch and Python. The oldest and the newest of both are there."""
TESTS = ("tests/cases", "tests/knowledge", "tests/runtime", "tests/updates", "tests/integrations/test_pytest_plugin.py")
"""What depends on torch or on Python's own frames. The rest reads source text."""
TOOLS = (
    "cloudpickle",
    "dill",
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "hypothesis",
    "numpy",
    "jsonschema",
    "setuptools",
)


def find_python(version: str) -> str | None:
    """A Python of this version, such as "3.12"."""
    named = os.environ.get(f"PYTHON_{version.replace('.', '_')}")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    places = [named, shutil.which(f"python{version}"), *sorted(map(str, pyenv.glob(f"{version}.*/bin/python")))]
    if shutil.which("uv"):
        found = subprocess.run(["uv", "python", "find", version], capture_output=True, text=True)
        places.append(found.stdout.strip())
    return next((place for place in places if place and _version_of(place) == version), None)


def _version_of(python: str) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        return subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def try_row(torch: str, python: str, keep: bool) -> dict[str, object]:
    """Makes the environment, runs the tests, and returns the counts and what failed."""
    interpreter = find_python(python)
    if interpreter is None:
        return {"state": "no such Python here"}
    folder = FOLDER / f"torch-{torch}-python-{python}"
    own, began = folder / "bin" / "python", time.monotonic()
    try:
        if not own.exists():
            _run(interpreter, "-m", "venv", folder)
        _run(own, "-m", "pip", "install", "--quiet", f"torch=={torch}", *TOOLS)
        _run(own, "-m", "pip", "install", "--quiet", ROOT)
        return {**_tested(own, folder), "minutes": round((time.monotonic() - began) / 60)}
    except subprocess.CalledProcessError as error:
        return {"state": f"cannot be installed: {' '.join(map(str, error.cmd[1:5]))}"}
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _run(*words: object) -> None:
    subprocess.run(list(map(str, words)), check=True, cwd=ROOT)


def _tested(python: Path, folder: Path) -> dict[str, object]:
    """The outcome of the tests. They find the outplace that was installed, not the one of src/."""
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    words = [python, "-m", "pytest", "-n", "2", "--dist", "worksteal", f"--junitxml={report}", *TESTS]
    subprocess.run(list(map(str, words)), cwd=ROOT)
    if not report.exists():
        return {"state": "pytest has not come to its end"}
    counts: Counter[str] = Counter()
    failed: dict[str, str] = {}
    for case in xml.parse(report).iter("testcase"):
        wrong = case.find("failure") if case.find("failure") is not None else case.find("error")
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        if wrong is not None:
            failed[name] = (wrong.get("message") or "").split("\n")[0][:200]
        counts["failed" if wrong is not None else "skipped" if case.find("skipped") is not None else "passed"] += 1
    return {"state": "tested", **counts, "failures": failed}


def table(results: dict[str, dict[str, object]]) -> str:
    """The results as a table in Markdown."""
    lines = ["| torch | Python | passed | failed | skipped |", "|---|---|---|---|---|"]
    for row, found in sorted(results.items(), key=lambda item: list(map(int, re.findall(r"\d+", item[0])))):
        counts = [str(found.get(count, 0)) for count in ("passed", "failed", "skipped")]
        cells = counts if found["state"] == "tested" else [str(found["state"]), "", ""]
        lines.append(f"| {' | '.join([*row.split('/'), *cells])} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="TORCH/PYTHON")
    parser.add_argument("--keep", action="store_true", help="keep the environments")
    parser.add_argument("--list", action="store_true", help="print the rows and their Pythons")
    parser.add_argument("--table", action="store_true", help="print the results so far")
    options = parser.parse_args()
    rows = [tuple(row.split("/")) for row in options.rows] or ROWS
    if any(len(row) != 2 for row in rows):
        parser.error("a row is TORCH/PYTHON, such as 2.15.0/3.14")
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    if options.list:
        for torch, python in rows:
            print(f"torch {torch:8} Python {python}: {find_python(python) or 'not found'}")
    elif not options.table:
        for torch, python in rows:
            print(f"== torch {torch}, Python {python}", flush=True)
            results[f"{torch}/{python}"] = try_row(torch, python, options.keep)
            FOLDER.mkdir(parents=True, exist_ok=True)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    if not options.list:
        print(table(results))
        for row, found in results.items():
            for name, why in found.get("failures", {}).items():  # type: ignore[attr-defined]
                print(f"{row}: {name}: {why}")
    return 1 if any(found.get("failed") for found in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
