"""C++ that knows torch from the inside, compiled for the torch at hand when it is first needed.

No wheel can bring it: it fits one version of torch and of Python only. So it is compiled on the machine, as Triton's
kernels are, by a process of its own while the program goes on; the result is kept in the user's cache for all programs
to come. Where there is no compiler nothing is lost but time.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import time
import uuid
from pathlib import Path
from types import ModuleType

import torch

SECONDS_TO_LOOK = 0.5
"""How often it is looked for what another process may have compiled."""
SECONDS_TO_COMPILE = 600.0
"""Whoever takes longer is given up: it was killed, most likely."""
SECONDS_TO_TRY_AGAIN = 86_400.0
"""A compiler may have failed for want of memory or room."""
_COMPILE = """(
  target=$1 made=$2 said=$2.said; shift 2
  if nice "$@" > "$said" 2>&1 && mv "$made" "$target" 2>> "$said"; then rm "$said"; else mv "$said" "$target.failed"; fi
  rm -f "$made" "$target.lock"
) &"""
"""It ends its work even if the program that wants it ends first. What the compiler says of a failure is kept."""


class Native:
    """A module written in C++, as soon as it is compiled."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self._module: ModuleType | None = None
        self._given_up = os.name != "posix"
        self._next_look = 0.0

    def module(self) -> ModuleType | None:
        """The module, or None while it is compiled, which the first call begins; or where that fails."""
        if self._module is None and not self._given_up and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + SECONDS_TO_LOOK
            try:
                self._look()
            except Exception:  # no home, no room for a cache: no program may fail because of it
                self._given_up = True
        return self._module

    def wait(self, seconds: float = 120.0) -> ModuleType | None:
        """The module, waited for: for whoever measures or tests it."""
        end = time.monotonic() + seconds
        while self.module() is None and not self._given_up and time.monotonic() < end:
            time.sleep(SECONDS_TO_LOOK)
        return self._module

    @functools.cached_property
    def _command(self) -> list[str] | None:
        return _command(self._source)

    @functools.cached_property
    def _target(self) -> Path:
        return _target(self._source, self._command or [])

    @property
    def _failed(self) -> Path:
        return Path(f"{self._target}.failed")

    def _load(self) -> None:
        try:
            self._module = _loaded(self._source.stem, self._target)
        except ImportError as error:  # it is not whole, or is from a machine that this one is not like
            self._failed.write_text(f"{error}\n")
            self._target.unlink()
            self._given_up = True

    def _look(self) -> None:
        if self._command is None:
            self._given_up = True
        elif self._target.exists():
            self._load()
        elif _has_failed(self._failed):
            self._given_up = True
        elif _is_ours_to_compile(Path(f"{self._target}.lock")):
            _compile(self._command, self._target)


def _command(source: Path) -> list[str] | None:
    """How to compile it, but for where to; None if something is missing for that."""
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), "c++", "g++", "clang++"))), None)
    home = Path(torch.__file__).parent
    headers = [home / "include", home / "include/torch/csrc/api/include", Path(sysconfig.get_path("include"))]
    if compiler is None or not (headers[0] / "torch").exists() or not (headers[2] / "Python.h").exists():
        return None
    libraries = home / "lib"
    return [
        *(compiler, "-std=c++20", "-O2", "-DNDEBUG", "-shared", "-fPIC", "-fvisibility=hidden"),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        *(f"-isystem{folder}" for folder in headers),
        str(source),
        *(f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"),
    ]


def _compile(command: list[str], target: Path) -> None:
    """Begins with it, and does not wait."""
    made = f"{target}.{uuid.uuid4().hex}.made"
    subprocess.run(
        ["sh", "-c", _COMPILE, "sh", str(target), made, *command, "-o", made],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # an interrupt is for the program
    )


def _target(source: Path, command: list[str]) -> Path:
    """Where it is kept: a file for each source, torch, Python and machine."""
    library = (Path(torch.__file__).parent / "lib/libtorch_python.so").stat()
    of_torch = [torch.__version__, str(library.st_size), str(library.st_mtime_ns)]
    what = [*of_torch, sys.version, platform.machine(), *command, source.read_text(encoding="utf-8")]
    name = hashlib.sha256("\0".join(what).encode(errors="surrogateescape")).hexdigest()[:16]
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    cache = (given if given.is_absolute() else Path.home() / ".cache") / "outplace"
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    own = cache.stat()
    if own.st_uid != os.geteuid() or own.st_mode & 0o022:
        raise PermissionError(f"{cache} can be written by others")  # and what they write would be run
    return cache / f"{source.stem}-{name}.so"


def _has_failed(failed: Path) -> bool:
    """Lately? An older failure is forgotten."""
    try:
        if time.time() - failed.stat().st_mtime < SECONDS_TO_TRY_AGAIN:
            return True
        failed.unlink()
    except FileNotFoundError:
        pass
    return False


def _is_ours_to_compile(lock: Path) -> bool:
    """Does no other process do it?"""
    try:
        lock.open("x").close()
    except FileExistsError:
        try:
            if time.time() - lock.stat().st_mtime > SECONDS_TO_COMPILE:
                lock.unlink()  # and the next look takes it
        except FileNotFoundError:
            pass
        return False
    return True


def _loaded(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
