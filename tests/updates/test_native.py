"""C++ that is compiled when it is needed: in the background, once, and never so that a program fails because of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from outplace.updates.kernels import native
from outplace.updates.kernels.native import Native

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no CUDA that would need it"),
    pytest.mark.skipif(shutil.which("c++") is None, reason="needs a compiler"),
]

SOURCE = """
#include <Python.h>
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "quick", "made by a compiler"};
PyMODINIT_FUNC PyInit_quick() { return PyModule_Create(&definition); }
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(native, "SECONDS_TO_LOOK", 0.02)
    return tmp_path / "cache" / "outplace"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "quick.cpp"
    path.write_text(SOURCE)
    return path


def unwanted(*_: Any, **__: Any) -> None:
    raise AssertionError("nothing is to be compiled")


def left(cache: Path) -> list[str]:
    """What there is in the cache, by its last name, when no compiler is at work."""
    end = time.monotonic() + 10
    while [*cache.glob("*.lock")] and time.monotonic() < end:
        time.sleep(0.02)
    return sorted(path.suffix for path in cache.iterdir())


def test_it_is_compiled_once(source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Native(source)
    assert first.module() is None, "the program does not wait for a compiler"
    compiled = first.wait()
    assert compiled is not None and compiled.__doc__ == "made by a compiler"
    assert first.module() is compiled
    assert left(cache) == [".so"]
    assert cache.stat().st_mode & 0o077 == 0, "what others could write would be run"
    monkeypatch.setattr(native, "_compile", unwanted)
    assert Native(source).module() is not None, "the next program finds it"


def test_another_source_is_another_module(source: Path, cache: Path) -> None:
    assert Native(source).wait() is not None
    source.write_text(SOURCE.replace("made by a compiler", "made anew"))
    anew = Native(source).wait()
    assert anew is not None and anew.__doc__ == "made anew"
    assert left(cache) == [".so", ".so"]


def test_what_cannot_be_compiled_is_tried_once(source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source.write_text("this is no C++")
    assert Native(source).wait() is None
    assert left(cache) == [".failed"]
    (log,) = cache.iterdir()
    assert "error" in log.read_text(), "what the compiler said is kept"
    monkeypatch.setattr(native, "_compile", unwanted)
    assert Native(source).wait() is None


def test_two_programs_at_once(source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Native(source), Native(source)
    assert one.module() is None
    with monkeypatch.context() as patched:
        patched.setattr(native, "_compile", unwanted)
        assert other.wait() is not None
    assert one.wait() is not None


def test_whoever_was_killed_is_not_waited_for(source: Path, cache: Path) -> None:
    begun = Native(source)
    assert begun._command is not None
    lock = Path(f"{begun._target}.lock")
    lock.touch()
    assert begun.wait(0.1) is None, "another program may be at it"
    long_ago = time.time() - 2 * native.SECONDS_TO_COMPILE
    os.utime(lock, (long_ago, long_ago))
    assert begun.wait() is not None


@pytest.mark.parametrize("missing", ["compiler", "headers", "room"])
def test_where_something_is_missing(
    missing: str, source: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing == "compiler":
        monkeypatch.setenv("PATH", str(tmp_path))
    elif missing == "headers":
        monkeypatch.setattr(native.sysconfig, "get_path", lambda name: str(tmp_path))
    else:
        (tmp_path / "cache").write_text("a file where a folder should be")
    assert Native(source).wait() is None


def test_a_file_that_is_no_module(source: Path, cache: Path) -> None:
    broken = Native(source)
    broken._target.write_bytes(b"not whole")
    assert broken.wait() is None
    assert left(cache) == [".failed"]
    assert "not whole" not in broken._failed.read_text() and broken._failed.read_text().strip()


def test_a_failure_is_forgotten_after_a_day(source: Path, cache: Path) -> None:
    begun = Native(source)
    begun._failed.write_text("no room")
    assert begun.wait() is None
    long_ago = time.time() - 2 * native.SECONDS_TO_TRY_AGAIN
    os.utime(begun._failed, (long_ago, long_ago))
    assert Native(source).wait() is not None
    assert left(cache) == [".so"]


def test_nobody_else_may_write_what_is_run(source: Path, cache: Path) -> None:
    assert Native(source).wait() is not None
    cache.chmod(0o777)
    assert Native(source).wait() is None


def test_a_folder_that_is_named_relative_to_nothing(
    source: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert Native(source)._target.parent == tmp_path / "home" / ".cache" / "outplace"


def test_without_a_home(source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(native.Path, "home", homeless)
    assert Native(source).wait() is None


def test_it_outlives_the_program(source: Path, cache: Path) -> None:
    program = "import pathlib, sys; from outplace.updates.kernels.native import Native; "
    program += "Native(pathlib.Path(sys.argv[1])).module()"
    subprocess.run([sys.executable, "-c", program, str(source)], check=True)
    assert left(cache) == [".so"]
