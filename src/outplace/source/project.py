"""The files of a project, read and parsed once, and found by the names they are imported under."""

from __future__ import annotations

import ast
import contextlib
import gc
import math
import mmap
import os
import sys
import time
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from outplace.files.parsable import first_part
from outplace.files.quiet import quietly
from outplace.model import Finding
from outplace.source.values import Scope

if TYPE_CHECKING:
    from outplace.source.torch_model.library import Operator

MOST_SECONDS = 5.0
"""CPU time for one file. What is left of it then is left out."""
MOST_MEMORY = 256 << 20
"""Bytes that the process may take more than before the file. What is left of the file then is left out, too."""
_SECONDS_BETWEEN_LOOKS = 0.05
"""So often the memory is looked at, which takes longer than a look at the clock."""
_SECONDS_OF_TRUST = 0.005
"""On some systems the clock of CPU time takes much longer than that of the wall. It is looked at this often."""
_LARGEST = 2_000_000
_MOST_KEPT = 6_000_000
"""Characters of source whose trees are kept for the next files: a syntax tree takes about fifty times its text."""


class OutOfTime(Exception):
    """A repair takes too long, or an analysis that it needs was cut short. `findings`: what was found until then."""

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        super().__init__()
        self.findings = tuple(findings)


class Limits(NamedTuple):
    """How long this thread may take, as its clock counts CPU time, and how large the process may become."""

    ends_at: float
    most_memory: float

    def are_passed(self) -> bool:
        """Is the time over, or too much memory taken?"""
        return time.thread_time() > self.ends_at or (self.most_memory < math.inf and _memory() > self.most_memory)


NO_LIMITS = Limits(math.inf, math.inf)
_limits: ContextVar[Limits] = ContextVar("limits", default=NO_LIMITS)


@contextlib.contextmanager
def within(seconds: float, memory: int) -> Iterator[Limits]:
    """All analyses in this block together end after this CPU time, and with this much more memory than now."""
    outer = _limits.get()
    most_memory = min(outer.most_memory, _memory() + memory)
    token = _limits.set(Limits(min(outer.ends_at, time.thread_time() + seconds), most_memory))
    try:
        yield _limits.get()
    finally:
        _limits.reset(token)


class Module:
    """One source file. `scope` is filled when its top level is first interpreted."""

    def __init__(self, path: str, source: str, name: str, tree: ast.Module) -> None:
        self.path, self.source, self.name, self.tree = path, source, name, tree
        self.lines = source.split("\n")  # as ast counts them: a form feed ends no line
        self.scope = Scope()
        self.started = False
        self.operators: dict[str, Operator] = {}
        """The operators of `torch.library` that it defines, by their full names: `mine::scale_`."""

    @property
    def package(self) -> str:
        """The package that relative imports start from."""
        if os.path.basename(self.path) == "__init__.py":
            return self.name
        return self.name.rpartition(".")[0]


class Project:
    """Source files by path and by import name, parsed once; `texts` are those that an editor has open and not saved."""

    def __init__(
        self, roots: Sequence[str] = (), texts: Mapping[str, str] | None = None, like: Project | None = None
    ) -> None:
        """`like`: another one, whose trees serve for the files that are the same here."""
        self._texts = texts or {}
        self._roots = [os.path.abspath(root) for root in roots]
        self._modules: dict[str, Module | None] = {}
        self._trees: dict[str, tuple[str, ast.Module]] = {} if like is None else like._trees
        self._paths: dict[tuple[str, str], str | None] = {} if like is None else like._paths
        self._folders: dict[str, list[str]] = {}
        self._ends_at = self._most_memory = math.inf
        self._next_look = self._next_look_at_cpu = 0.0
        self.cut: dict[tuple[str, int], None] = {}
        """The functions of the present file, by name and line, that were too long to follow to their end."""
        self.ran_out = False
        """Did the present file take too much time or memory, so that the rest of it was left out?"""
        self.read: list[str] = []
        """Files that were read for imports, in order; `analysis` notes which belong to which result."""

    def unsaved(self, path: str) -> str | None:
        """The text of a file that is not, or not yet, what it holds on disk."""
        return self._texts.get(path)

    def open(self, path: str, source: str) -> Module:
        """The module of a file that is being checked: a program, even where others import it."""
        self._make_room()
        if self.ran_out:
            self._modules.clear()  # their top levels may have been left half run
        limits = _limits.get()
        self._next_look_at_cpu = 0.0
        self._next_look = now = time.thread_time()
        self._ends_at, self.ran_out = min(now + MOST_SECONDS, limits.ends_at), False
        self.cut = {}
        absolute = os.path.abspath(path)
        module = Module(path, source, _module_name(absolute), self._parse(absolute, source))
        self._most_memory = min(_memory() + MOST_MEMORY, limits.most_memory)
        return module

    def is_out_of_time(self) -> bool:
        """Has the analysis of the present file taken as much time as it may, or as much memory?"""
        wall = time.monotonic()
        if wall < self._next_look_at_cpu and not self.ran_out:
            return False
        self._next_look_at_cpu = wall + _SECONDS_OF_TRUST
        now = time.thread_time()
        if now > self._next_look:
            self._next_look = now + _SECONDS_BETWEEN_LOOKS
            self.ran_out = self.ran_out or _memory() > self._most_memory
        self.ran_out = self.ran_out or now > self._ends_at
        return self.ran_out

    def _make_room(self) -> None:
        """Forgets what was not asked for the longest, where too much is kept."""
        size = sum(len(source) for source, _ in self._trees.values())
        if size > _MOST_KEPT:
            for path in list(self._trees):
                if size > _MOST_KEPT // 2:
                    size -= len(self._trees.pop(path)[0])
                    self._modules.pop(path, None)
            gc.collect()  # functions and the scopes they lie in are cycles

    def find(self, name: str, importer: Module) -> str | None:
        """The file of the project's own module of that name, as the importing file sees it; None for anything else."""
        key = (os.path.dirname(os.path.abspath(importer.path)), name)
        if key not in self._paths:
            self._paths[key] = self._look_for(name, key[0])
        return self._paths[key]

    def load(self, path: str) -> Module | None:
        """The module of an imported file; None where it cannot be read."""
        if path not in self._modules:
            self._modules[path] = None
            try:
                source = self._texts[path] if path in self._texts else _read(path)
                if len(source) < _LARGEST and first_part(source) is source:
                    self._modules[path] = Module(path, source, _module_name(path), self._parse(path, source))
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                pass
        elif path in self._trees:
            self._trees[path] = self._trees.pop(path)  # the last in the dict is the last that was asked for
        self.read.append(path)
        return self._modules[path]

    def loaded(self) -> list[Module]:
        """The imported modules that could be read."""
        return [module for module in self._modules.values() if module is not None]

    def _parse(self, path: str, source: str) -> ast.Module:
        known = self._trees.get(path)
        if known is not None and known[0] == source:
            return known[1]
        with quietly():  # invalid escapes and the like are not ours to tell
            tree = ast.parse(source, path)
        self._trees[path] = (source, tree)
        return tree

    def _look_for(self, name: str, here: str) -> str | None:
        """Looks above the importer's outermost package, in its own folder, in the roots, and in the folders above.

        A program that is started in its project's folder finds all folders below, packages or not.
        """
        top = here
        while os.path.isfile(os.path.join(top, "__init__.py")) and os.path.dirname(top) != top:
            top = os.path.dirname(top)
        relative = os.path.join(*name.split("."))
        for folder in dict.fromkeys([top, here, *self._roots, *self._above(top)]):
            for path in (os.path.join(folder, relative + ".py"), os.path.join(folder, relative, "__init__.py")):
                if path in self._texts or os.path.isfile(path):
                    return path
        return None

    def _above(self, folder: str) -> list[str]:
        """The folders above, up to the project's own."""
        if folder not in self._folders:
            found = [folder]
            while len(found) <= _MOST_FOLDERS and not any(
                os.path.exists(os.path.join(found[-1], mark)) for mark in _PROJECT_MARKS
            ):
                found.append(os.path.dirname(found[-1]))
            self._folders[folder] = found if len(found) <= _MOST_FOLDERS else []
        return self._folders[folder]


_MOST_FOLDERS = 5
_PROJECT_MARKS = (".git", "pyproject.toml", "setup.py", "requirements.txt")


def _memory() -> int:
    """The bytes of memory that this process takes; the most so far where only that is known."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except OSError:
        pass
    try:
        import resource
    except ImportError:  # on Windows
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _read(path: str) -> str:
    with tokenize.open(path) as file:
        return file.read()


def _module_name(path: str) -> str:
    """The dotted name, by the folders that are packages."""
    folder, filename = os.path.split(path)
    parts = [] if filename == "__init__.py" else [filename.removesuffix(".py")]
    while os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.dirname(folder) != folder:
        folder, name = os.path.split(folder)
        parts.insert(0, name)
    return ".".join(parts)
