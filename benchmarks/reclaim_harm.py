"""Does `outplace reclaim --all --fix` ever harm a program? Every change it would write, and the program with it.

    python benchmarks/reclaim_harm.py [FOLDER ...]     # the programs of tests/cases where none is given

Each program is run from beginning to end, reclaimed, and run again with all changes written: it must end with the same
exit code and print the same, and a program that fails must fail as before. Every run is a fork of a process that has
torch loaded, so that the start-up is paid once.
"""

from __future__ import annotations

import argparse
import atexit
import os
import runpy
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch.utils.checkpoint

from outplace.reclaim import probe
from outplace.reclaim.proving import Reclaim
from outplace.reclaim.trials import Trials

CASES = Path(__file__).parent.parent / "tests" / "cases" / "programs"
MAINS = ("main.py", "case.py", "fixed.py")
LIMIT = 120


def programs(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """What to copy, and the words that run it there."""
    for path in sorted(folder.iterdir()):
        if path.suffix == ".py":
            yield path, [path.name]
        elif (path / "__main__.py").exists():
            yield path, ["-m", path.name]
        elif path.is_dir():
            for main in MAINS:
                if (path / main).exists():
                    yield path, [f"{path.name}/{main}"]


def in_fork(work: Callable[[], Any], stdout: Path) -> int:
    """Runs something in a process of its own; its exit code, or -1 where it took too long."""
    child = os.fork()
    if child == 0:
        os.setsid()
        atexit._clear()  # what the parent wants to be done at its end is none of the child's business
        for stream in (1, 2):
            os.dup2(os.open(stdout if stream == 1 else os.devnull, os.O_WRONLY | os.O_CREAT), stream)
        os._exit(_end_of(work))
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


def _end_of(work: Callable[[], Any]) -> int:
    code = 1
    try:
        code = int(work() or 0)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    return code


def plain(words: list[str]) -> tuple[int, bytes]:
    """The program by itself."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "stdout")

        def work() -> None:
            torch.manual_seed(0)
            module = words[0] == "-m"
            sys.argv = words[1:] if module else words
            sys.path[0] = os.getcwd() if module else os.path.dirname(os.path.abspath(words[0]))
            if module:
                runpy.run_module(words[1], run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(words[0], run_name="__main__")

        return in_fork(work, output), output.read_bytes()


class Forks(Trials):
    """Trials that begin with torch loaded."""

    def _wait(self, command: list[str], environment: dict[str, str], folder: Path, shown: bool) -> tuple[int, bool]:
        def work() -> Any:
            from outplace.cli.main import main

            os.environ.clear()
            os.environ.update(environment)
            probe.start()
            sys.argv = command[2:]
            return main(["run", "--", *command[3:]])

        (folder / "stderr").touch()
        code = in_fork(work, folder / "stdout")
        return code, code == -1


def try_program(path: Path, words: list[str]) -> tuple[str, int, list[str]]:
    """What became of it, how many changes were made, and those that the proof had to refuse."""
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, path.name)
        (shutil.copytree if path.is_dir() else shutil.copyfile)(path, target)  # type: ignore[operator]
        os.chdir(folder)
        trials = Forks(words, 3, LIMIT)
        try:
            before, again = plain(words), plain(words)
            outcome = Reclaim(trials, everything=True).run()
            for file, text in outcome.texts.items():
                Path(file).write_text(text)
            after = plain(words)
        finally:
            trials.close()
            os.chdir(home)
    changes = len(outcome.advice.paying) + len(outcome.advice.others) if outcome.advice and outcome.texts else 0
    refused = [f"{one.site.line}: {one.before} => {one.after}" for one in outcome.rejected]
    if before[0] != 0:
        return ("fails as before" if after == before else "HARMED"), changes, refused
    if before != again:
        return "prints something else in every run", changes, refused
    return ("the same" if after == before else "HARMED"), changes, refused


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*", type=Path, default=[CASES])
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.dont_write_bytecode = True
    outcomes: Counter[str] = Counter()
    total = refusals = 0
    for path, words in [one for folder in options.folders for one in programs(folder.resolve())]:
        outcome, changes, refused = try_program(path, words)
        outcomes[outcome] += 1
        total, refusals = total + changes, refusals + len(refused)
        print(f"{' '.join(words):60} {outcome}; {changes} changes", *refused, sep="\n    refused ", flush=True)
    print(dict(outcomes), f"{total} changes, {refusals} more refused by the proof")
    sys.exit(1 if outcomes["HARMED"] else 0)


if __name__ == "__main__":
    main()
