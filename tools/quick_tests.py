"""The tests of what has changed: against main on a branch, against the last commit on main.

python tools/quick_tests.py            prints the test files
python tools/quick_tests.py --run      runs them, for at most a minute (`make quick`)

A changed test file counts itself. A changed module counts the test files whose place mirrors its own:
src/outplace/repair/drive/runs.py has tests/repair/drive/test_runs*.py, and every test file that imports it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ALWAYS = "tests/test_house.py"
LIMIT = 60
"""Seconds for all tests. Lint and types take the rest of two minutes."""


def changed() -> list[str]:
    """The files that differ, new ones included."""
    base = _git("merge-base", "HEAD", "main") or ["HEAD"]
    return [*_git("diff", "--name-only", base[0]), *_git("ls-files", "--others", "--exclude-standard")]


def tests_of(files: Iterable[str], root: Path = ROOT) -> list[str]:
    """The test files that belong to these files."""
    texts = {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in root.glob("tests/**/test_*.py")}
    found = {ALWAYS}
    for file in files:
        if file in texts:
            found.add(file)
        elif file.startswith("src/outplace/") and file.endswith(".py"):
            found.update(_of_module(file, texts))
    return sorted(found & texts.keys())


def _of_module(file: str, texts: dict[str, str]) -> Iterator[str]:
    inside = Path(file).relative_to("src/outplace")
    folder = (Path("tests") / inside.parent).as_posix()
    module = ".".join(("outplace", *inside.with_suffix("").parts))
    package, _, name = module.rpartition(".")
    imports = re.compile(rf"(?:from|import) {re.escape(module)}\b|from {re.escape(package)} import .*\b{name}\b")
    for test, text in texts.items():
        if test.startswith(f"{folder}/test_{name}") or imports.search(text):
            yield test


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


def main() -> int:
    tests = tests_of(changed())
    print("\n".join(tests), flush=True)
    if "--run" not in sys.argv:
        return 0
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "2",
        "--dist",
        "worksteal",
        "--session-timeout",
        str(LIMIT),
        *tests,
    ]
    return _without_the_rest(command)


def _without_the_rest(command: list[str]) -> int:
    """Runs pytest. If the time is over and nothing has failed by then, that is no failure."""
    lines: list[str] = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
    is_over = any("session-timeout" in line for line in lines)
    if is_over and not re.search(r"\d+ (failed|error)", lines[-1]):
        print(f"After {LIMIT} seconds not all of these tests have run. `make test` runs all.")
        return 0
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
