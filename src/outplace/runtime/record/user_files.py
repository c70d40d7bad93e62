"""Which files are the user's own, as opposed to torch, other installed packages and the standard library."""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import site
import sys
import sysconfig
from collections.abc import Iterator
from typing import Any

HANDING_ON = frozenset({"__torch_function__", "__torch_dispatch__"})
"""Functions of the user that carry out operations for other code. The line of that other code is the one to report."""


def fields_of(value: Any) -> dict[str, Any]:
    """The attributes in the object's own `__dict__`. This never runs a `__getattr__` of the user, which may raise."""
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return held if type(held) is dict else {}


OUTPLACE_FOLDER = os.path.abspath(os.path.join(os.path.dirname(__file__), os.pardir, os.pardir))


def _library_folders() -> tuple[str, ...]:
    named = sysconfig.get_paths()
    folders = {named[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders.update(site.getsitepackages())
    folders.add(site.getusersitepackages())
    folders.add(OUTPLACE_FOLDER)
    folders.update(os.path.join(prefix, "lib") for prefix in {sys.base_prefix, sys.prefix})
    return tuple(sorted(os.path.realpath(folder) + os.sep for folder in folders if folder))


_real_folder = functools.cache(os.path.realpath)


def _real(filename: str) -> str:
    """The file's real path. Thousands of files lie in few folders, so each folder is looked up once."""
    folder, name = os.path.split(filename)
    if not os.path.isabs(folder) or os.path.islink(filename):
        return os.path.realpath(filename)
    return os.path.join(_real_folder(folder), name)


@functools.cache
def is_of_python(filename: str) -> bool:
    """Is it a file of Python's standard library?"""
    path = _real(filename)
    installed = not {"site-packages", "dist-packages"}.isdisjoint(path.split(os.sep))
    return not installed and path.startswith(os.path.realpath(sysconfig.get_paths()["stdlib"]) + os.sep)


class _OwnFiles(dict[str, bool]):
    """File name -> is it a file of the user? A dict, because it is read at every write and every function return."""

    def __init__(self) -> None:
        super().__init__()
        self._library = _library_folders()
        self._claimed: tuple[str, ...] = ()
        self._named: set[str] = set()

    def __missing__(self, filename: str) -> bool:
        own = self._decide(filename)
        self[filename] = own
        return own

    def _decide(self, filename: str) -> bool:
        if filename.startswith("<"):  # <string>, <frozen importlib._bootstrap>, code that torch generates
            return filename in self._named
        path = _real(filename)
        if self._claimed and path.startswith(self._claimed):
            return True
        installed = not {"site-packages", "dist-packages"}.isdisjoint(path.split(os.sep))  # of any interpreter
        return not (installed or path.startswith(self._library))

    def claim(self, path: str) -> None:
        """Counts a file or a folder as the user's, wherever it lies (the program that runs)."""
        if path.startswith("<"):  # `<string>`, a cell of IPython
            self._named.add(path)
            self[path] = True
            return
        real = os.path.realpath(path)
        self._claimed += (real + os.sep if os.path.isdir(real) else real,)
        self.clear()

    def disclaim(self, name: str) -> None:
        """No longer counts the code of this name as the user's."""
        self._named.discard(name)
        self[name] = False

    def know_torch(self, folder: str) -> None:
        """Counts torch's folder as a library, for a torch that was built in a checkout."""
        self._library += (os.path.realpath(folder) + os.sep,)
        self.clear()


own_files = _OwnFiles()


# -- source that is in no file (`-c`, standard input, texts that the program compiles) ------------------------------

_sources: dict[str, str] = {}
_reused: set[str] = set()
"""Names under which the program has compiled several texts. Their lines say nothing."""
_adopted: set[str] = set()
_MOST_TEXTS = 1_000
_LONGEST_TEXT = 1_000_000


def adopt(filename: str, text: str) -> bool:
    """Counts a text that the user's code compiles as the user's. False if the name is not this text's alone."""
    known = _sources.get(filename)
    if known == text:
        return own_files[filename]
    if known is not None and filename in _adopted:
        _sources.pop(filename)
        _reused.add(filename)
        own_files.disclaim(filename)
    if known is not None or filename in _reused or own_files[filename] or len(text) > _LONGEST_TEXT:
        return False
    if len(_sources) >= _MOST_TEXTS:
        return False
    _adopted.add(filename)
    _sources[filename] = text
    own_files.claim(filename)
    return True


def remember_source(filename: str, source: str | bytes) -> None:
    """Keeps the source of `<string>` or `<stdin>`, so that diagnoses can show it."""
    _sources[filename] = source if isinstance(source, str) else source.decode(errors="replace")
    if sys.version_info >= (3, 13) and filename == "<string>":  # Python itself shows it in tracebacks
        _put_into_linecache(filename)


def _put_into_linecache(filename: str) -> None:
    text = _sources[filename]
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)


@contextlib.contextmanager
def known_sources() -> Iterator[None]:
    """Puts that source into linecache while the block lasts, so the user's tracebacks stay unchanged at other times."""
    missing = [filename for filename in _sources if filename not in linecache.cache]
    for filename in missing:
        _put_into_linecache(filename)
    try:
        yield
    finally:
        for filename in missing:
            linecache.cache.pop(filename, None)
