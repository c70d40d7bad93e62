"""Does `outplace reclaim --all --recompute --fix` ever harm a program? Each change it would write, tried in it.

    python benchmarks/reclaim_harm.py [FOLDER ...]     # the programs of tests/cases where none is given
    python benchmarks/reclaim_harm.py --log FILE       # goes on where it was stopped

Each program is run from beginning to end, reclaimed, and run again with all changes written, then with each of them by
itself: it must end with the same exit code and print the same, and a program that fails must fail as before. Every run
is a fork of a process that has torch loaded, so that the start-up is paid once.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import runpy
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch.utils.checkpoint

from outplace.reclaim.drive.proving import Outcome, Reclaim
from outplace.reclaim.drive.trials import Trials
from outplace.reclaim.observe import probe
from outplace.reclaim.rules.advice import edited
from outplace.reclaim.rules.suggestion import Suggestion
from outplace.repair.syntax.files import Files

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


@dataclass
class Verdict:
    """What became of a program."""

    program: str
    outcome: str
    changes: int = 0
    refused: list[str] = field(default_factory=list)
    """The changes that the proof had to refuse."""
    harmful: list[str] = field(default_factory=list)
    """The changes that do harm by themselves."""

    def __str__(self) -> str:
        lines = [f"{self.program:60} {self.outcome}; {self.changes} changes"]
        lines += [f"    refused {one}" for one in self.refused] + [f"    HARMFUL ALONE {one}" for one in self.harmful]
        return "\n".join(lines)


def try_program(path: Path, words: list[str]) -> Verdict:
    """Runs it as it is, with all changes, and with each by itself."""
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, path.name)
        (shutil.copytree if path.is_dir() else shutil.copyfile)(path, target)
        os.chdir(folder)
        trials = Forks(words, 3, LIMIT)
        try:
            before, again = plain(words), plain(words)
            outcome = Reclaim(trials, everything=True, recompute=True).run()
            made = [*outcome.advice.paying, *outcome.advice.others] if outcome.advice and outcome.texts else []
            write(outcome.texts)
            after = plain(words)
            harmful = [one for one in made if len(made) > 1 and alone(words, outcome, one) != before]
        finally:
            trials.close()
            os.chdir(home)
    verdict = "the same" if before[0] == 0 else "fails as before"
    if before != again:
        verdict, harmful = "prints something else in every run", []
    elif after != before or harmful:
        verdict = "HARMED"
    refused = [in_words(one) for one in outcome.rejected]
    return Verdict(" ".join(words), verdict, len(made), refused, [in_words(one) for one in harmful])


def alone(words: list[str], outcome: Outcome, one: Suggestion) -> tuple[int, bytes]:
    """The program with nothing but this change."""
    changed = edited(Files(outcome.originals, may_read=False), [one])
    assert changed is not None
    write({**outcome.originals, **{path: changed.text(path) for path in one.edits}})
    return plain(words)


def write(texts: Mapping[str, str]) -> None:
    for file, text in texts.items():
        Path(file).write_text(text)


def in_words(one: Suggestion) -> str:
    return f"{one.site.line}: {one.before} => {one.after}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*", type=Path, default=[CASES])
    parser.add_argument(
        "--log", type=Path, metavar="FILE", help="keeps the verdicts; those that it has are not sought again"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.dont_write_bytecode = True
    known = {}
    if options.log and options.log.exists():
        known = {
            one["path"]: Verdict(**one["verdict"]) for one in map(json.loads, options.log.read_text().splitlines())
        }
    verdicts = []
    for path, words in [one for folder in options.folders for one in programs(folder.resolve())]:
        key = f"{path.parent}: {' '.join(words)}"
        if key not in known:
            known[key] = try_program(path, words)
            if options.log:
                with options.log.open("a") as log:
                    log.write(json.dumps({"path": key, "verdict": asdict(known[key])}) + "\n")
        verdicts.append(known[key])
        print(known[key], flush=True)
    outcomes = Counter(one.outcome for one in verdicts)
    changes, refused = sum(one.changes for one in verdicts), sum(len(one.refused) for one in verdicts)
    print(f"{len(verdicts)} programs: {dict(outcomes)}; {changes} changes, {refused} more refused by the proof")
    sys.exit(1 if outcomes["HARMED"] else 0)


if __name__ == "__main__":
    main()
