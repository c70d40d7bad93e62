"""Runs one program twice, by Python and by outplace, and compares what the world sees of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import forks

OUTPLACE = os.path.join(os.path.dirname(sys.executable), "outplace")
with open(OUTPLACE) as _script:
    PYTHON = _script.readline().removeprefix("#!").strip()  # the very name of the interpreter, which messages repeat


@dataclass
class Ending:
    """How a process ended, and what it said."""

    code: int
    stdout: bytes
    stderr: str


def environment(**extra: str) -> dict[str, str]:
    """This process's environment, without what outplace itself would have put there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OUTPLACE", "PYTEST", "COV"))}
    return {**kept, "PYTHONHASHSEED": "0", **extra}


def write(folder: Path, name: str, source: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(source).lstrip("\n"), encoding="utf-8")
    return path


def start(command: list[str], folder: Path, **env: str) -> subprocess.Popen:
    pipe = subprocess.PIPE
    # A session of its own, so that a signal can be sent to it alone.
    return subprocess.Popen(
        command, cwd=folder, env=environment(**env), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )


def finish(process: subprocess.Popen, timeout: float = 300) -> Ending:
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return Ending(process.returncode, out, err.decode(errors="replace"))


def plain(folder: Path, *words: str, **env: str) -> Ending:
    return finish(start([PYTHON, *words], folder, **env))


def outplace(folder: Path, *words: str, **env: str) -> Ending:
    return finish(start([OUTPLACE, *words], folder, **env))


def forked(folder: Path, *words: str, **env: str) -> Ending:
    """`python WORDS` in a fork of a process that has imported torch already: ten times cheaper."""
    done = forks.python(folder, *words, **env)
    return Ending(done.returncode, done.stdout.encode(), done.stderr)


def outplace_forked(folder: Path, *words: str, **env: str) -> Ending:
    """`outplace WORDS`, likewise."""
    return forked(folder, "-m", "outplace", *words, **env)


def both_forked(folder: Path, *words: str, **env: str) -> tuple[Ending, Ending]:
    """`python WORDS` and `outplace run WORDS`, likewise, one after the other."""
    return forked(folder, *words, **env), outplace_forked(folder, "run", *words, **env)


def both(folder: Path, *words: str, **env: str) -> tuple[Ending, Ending]:
    """`python WORDS` and `outplace run WORDS`, at the same time."""
    first = start([PYTHON, *words], folder, **env)
    second = start([OUTPLACE, "run", *words], folder, **env)
    return finish(first), finish(second)


def same(expected: Ending, actual: Ending) -> None:
    """Exit code, stdout byte for byte, stderr apart from addresses in memory."""
    assert actual.stdout == expected.stdout
    assert _settled(actual.stderr) == _settled(expected.stderr)
    assert actual.code == expected.code


def _settled(text: str) -> str:
    text = re.sub(r"0x[0-9a-f]{6,}", "0x", text)
    # How deep a recursion goes before Python stops it depends on what runs below; its last rounds do not matter.
    return re.sub(r"\[Previous line repeated \d+ more times\]", "[Previous line repeated N more times]", text)
