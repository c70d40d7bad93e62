from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from outplace.checking import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))  # pytest puts its own in the real one
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    return stream


def test_long_work_shows_a_bar_and_takes_it_away(terminal, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0)
    monkeypatch.setattr(progress, "PAUSE", 0)
    with progress.bar(quiet=False) as tell:
        tell(3, 10)
        tell(7, 10)
    assert "Checking" in terminal.getvalue()
    assert "7/10" in terminal.getvalue()
    assert terminal.getvalue().rstrip().endswith("\x1b[2K")


def test_short_work_shows_nothing(terminal):
    with progress.bar(quiet=False) as tell:
        tell(1, 2)
        tell(2, 2)
    assert terminal.getvalue() == ""


def test_nobody_looks(terminal, monkeypatch):
    with progress.bar(quiet=True) as tell:
        assert tell is None
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=io.StringIO()))
    with progress.bar(quiet=False) as tell:
        assert tell is None
