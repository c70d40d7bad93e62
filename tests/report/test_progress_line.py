"""The line that says which run is going on."""

from __future__ import annotations

import io
import time

import pytest

from outplace.report import progress
from outplace.report.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(progress, "PAUSE", 0.01)
    return Terminal()


def test_a_terminal_has_one_line_that_is_updated_and_goes_away(terminal):
    shown = Progress(terminal)
    with shown.run(""):
        assert terminal.getvalue() == ""  # the program itself is printing
    shown._longest = 62.0
    with shown.run("repair 1 of 3: Write `+` out of place"):
        time.sleep(0.1)
    lines = terminal.getvalue().split("\r\x1b[2K")
    assert lines[1] == "[run 2: 0 s; the longest so far: 62 s]…"
    assert len(lines[1]) <= 39
    assert lines.count(lines[1]) > 2
    assert (lines[0], lines[-1]) == ("", "")
    assert "\n" not in terminal.getvalue()


def test_a_line_goes_away_after_an_error(terminal):
    with pytest.raises(KeyboardInterrupt), Progress(terminal).run("a run"):
        raise KeyboardInterrupt
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_a_pipe_gets_a_line_for_each_run():
    stream = io.StringIO()
    shown = Progress(stream)
    for about in ("", "compute the right gradients", "repair 1 of 1: Write `+` out of place"):
        with shown.run(about):
            pass
        shown._longest = 130.0
    assert stream.getvalue().splitlines() == [
        "outplace: run 2: compute the right gradients (about 2 min 10 s)",
        "outplace: run 3: repair 1 of 1: Write `+` out of place (about 2 min 10 s)",
    ]


def test_a_dumb_terminal_is_like_a_pipe(terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    with Progress(terminal).run("a run"):
        pass
    assert terminal.getvalue() == "outplace: run 1: a run\n"


def test_the_limit_is_said_once_before_the_second_run():
    stream = io.StringIO()
    shown = Progress(stream, limit=600)
    for about in ("", "repair 1 of 2", "repair 2 of 2"):
        with shown.run(about):
            pass
    assert stream.getvalue().splitlines() == [
        "outplace: trying repairs. The program runs again for each, for at most 10 min in all (--fix-timeout)",
        "outplace: run 2: repair 1 of 2",
        "outplace: run 3: repair 2 of 2",
    ]
