"""The environment variables: one module reads them, each has a type, and a bad value is answered with the good ones."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from outplace import settings
from outplace.errors import OutplaceError

SOURCE = Path(settings.__file__).parent


def test_nobody_else_names_a_variable():
    named = {
        (path.relative_to(SOURCE).as_posix(), node.value)
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("OUTPLACE")
    }
    assert {path for path, _ in named} == {"settings.py"}
    assert {name for _, name in named} == {variable.name for variable in settings.VARIABLES}


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("true", True), ("On", True), ("0", False), ("", False), ("no", False)]
)
def test_a_flag(monkeypatch, text, value):
    monkeypatch.setenv("OUTPLACE_GUARD", text)
    assert settings.GUARD.read() is value
    settings.check()


def test_unset_variables_have_their_defaults(monkeypatch):
    for variable in settings.VARIABLES:
        monkeypatch.delenv(variable.name, raising=False)
    assert [variable.read() for variable in settings.VARIABLES] == [variable.default for variable in settings.VARIABLES]
    assert settings.STEPS.read() == 3 and settings.STRICT.read() is False and settings.SESSION.read() == ""


@pytest.mark.parametrize(
    ("variable", "text", "good"),
    [
        (settings.STRICT, "maybe", "1, true, yes, on (on) or 0, false, no, off (off)"),
        (settings.COLOR, "sometimes", "auto, always, never"),
        (settings.STEPS, "-1", "a whole number above zero"),
        (settings.STEPS, "0", "a whole number above zero"),
    ],
)
def test_a_bad_value_is_answered_with_the_good_ones(monkeypatch, variable, text, good):
    monkeypatch.setenv(variable.name, text)
    with pytest.raises(OutplaceError) as caught:
        settings.check()
    assert str(caught.value) == f"{variable.name}={text!r} is not understood. Use {good}, or unset it."


def test_what_is_taken_is_not_inherited(monkeypatch):
    monkeypatch.setenv("OUTPLACE_STEPS", "7")
    assert settings.STEPS.take() == 7
    assert "OUTPLACE_STEPS" not in os.environ


def test_what_is_put_is_read():
    environment = {}
    for variable, value in ((settings.LEDGER, True), (settings.EXACT, False), (settings.STEPS, 5)):
        variable.put(value, environment)
        assert variable.parse(environment[variable.name]) is value


def test_a_child_process_with_a_bad_value_runs_on_unwatched():
    environment = {**os.environ, "OUTPLACE": "1", "OUTPLACE_GUARD": "maybe"}
    done = subprocess.run(
        [sys.executable, "-c", "print('ran')"], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "ran\n"
    assert set(done.stderr.splitlines()) == {
        "outplace: OUTPLACE_GUARD='maybe' is not understood. "
        "Use 1, true, yes, on (on) or 0, false, no, off (off), or unset it."
    }


def test_a_command_with_a_bad_value_says_so_in_one_line():
    environment = {**os.environ, "OUTPLACE_STRICT": "perhaps", "OUTPLACE": "0"}
    command = [sys.executable, "-m", "outplace", "run", "-c", "print('ran')"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("outplace: OUTPLACE_STRICT='perhaps' is not understood. Use 1, true,")
    assert len(done.stderr.splitlines()) == 1
