"""`outplace check --watch`: checks again whenever a file changes."""

from __future__ import annotations

import gc
import linecache
import os
import sys
import time
from collections.abc import Callable
from typing import Protocol

import click

from outplace.errors import OutplaceError

PAUSE = 0.5
"""Seconds between two looks at the files."""
_CLEAR = "\x1b[2J\x1b[H"


class Check(Protocol):
    """One check. It is created for each run, because the configuration may change, too."""

    def run(self) -> int:
        """Checks and reports."""

    def watched(self) -> list[str]:
        """The files that a new check would depend on."""


def watch(make: Callable[[], Check]) -> int:
    """Checks until the user stops it with Ctrl-C. A wrong option is an error the first time."""
    gc.enable()
    check = make()
    try:
        while True:
            _once(check)
            before = _state(check)
            print("outplace: watching for changes; stop with Ctrl-C", file=sys.stderr, flush=True)
            while _state(check) == before:
                time.sleep(PAUSE)
            check = _fresh_check(make, check)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 0


def _once(check: Check) -> None:
    if sys.stdout.isatty():
        click.echo(_CLEAR, nl=False)
    linecache.clearcache()
    try:
        check.run()
    except OutplaceError as error:  # a file may be half-written or gone; the next change may repair it
        error.show()
    sys.stdout.flush()
    gc.collect()


def _fresh_check(make: Callable[[], Check], last: Check) -> Check:
    try:
        return make()
    except OutplaceError as error:  # a mistake in the configuration
        error.show()
        return last


def _state(check: Check) -> dict[str, tuple[int, int]]:
    """The times and sizes of the files."""
    state = {}
    try:
        files = check.watched()
    except OutplaceError:  # a path on the command line is gone
        return {}
    for path in files:
        try:
            about = os.stat(path)
        except OSError:
            continue
        state[path] = about.st_mtime_ns, about.st_size
    return state
