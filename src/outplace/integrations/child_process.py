"""Attaches outplace to a child process. `outplace.pth` calls it when Python starts and OUTPLACE is set."""

from __future__ import annotations

import atexit
import sys

from outplace import settings
from outplace.errors import OutplaceError
from outplace.report import reporter
from outplace.runtime.errors import dispatch
from outplace.runtime.program import error_hooks, lifecycle, ranks, session


def attach() -> None:
    """Starts recording with tags: the main script of a child process cannot be compiled with marks."""
    try:
        if not settings.ENABLED.read():
            return
        lifecycle.attach("tags", reporter, settings.GUARD.read(), settings.STRICT.read())
    except OutplaceError as error:  # a variable with an invalid value
        print(f"outplace: {error}", file=sys.stderr)
        return
    session.start_in_child(reporter)
    session.start_in_forks(reporter)
    if ranks.launched():
        atexit.unregister(_show_at_end)  # Python reads the .pth files of a virtual environment twice
        atexit.register(_show_at_end)


def _show_at_end() -> None:
    session.show(reporter, error_hooks.uncaught, survived=False)
    session.show(reporter, dispatch.not_shown, survived=True)
