"""Finds the files to check: paths, globs and folders, without what is excluded or ignored by git."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from outplace.checking.config import upwards
from outplace.checking.outcome import Failure
from outplace.checking.patterns import Patterns
from outplace.errors import OutplaceError
from outplace.files import naming

SUFFIXES = (".py", ".ipynb")

DEFAULT_EXCLUDES = frozenset(
    [
        ".bzr",
        ".direnv",
        ".eggs",
        ".git",
        ".git-rewrite",
        ".hg",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".nox",
        ".outplace_cache",
        ".pants.d",
        ".pyenv",
        ".pytest_cache",
        ".pytype",
        ".ruff_cache",
        ".svn",
        ".tox",
        ".venv",
        ".vscode",
        "__pycache__",
        "__pypackages__",
        "_build",
        "buck-out",
        "build",
        "dist",
        "node_modules",
        "site-packages",
        "venv",
    ]
)
"""Names of files and folders that are skipped everywhere: ruff's list and our own cache."""


@dataclass(frozen=True)
class Excluded:
    """What is skipped inside folders."""

    names: frozenset[str] = DEFAULT_EXCLUDES
    patterns: tuple[Patterns, ...] = ()
    gitignore: bool = True


@dataclass
class Found:
    """The files to check, as absolute paths in order, and the folders that could not be read."""

    files: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def discover(arguments: Sequence[str], excluded: Excluded) -> Found:
    """The files that the arguments stand for, each once. A file that is named itself is never excluded."""
    result = Found()
    for argument in arguments:
        for path in _expand(argument):
            if os.path.isdir(path):
                before = len(result.files) + len(result.failures)
                result.files.extend(_Walk(os.path.abspath(path), excluded, result.failures).files())
                if len(result.files) + len(result.failures) == before:
                    result.notes.append(f"no Python files found in {path}")
            else:
                result.files.append(os.path.abspath(path))
    result.files = sorted(set(result.files), key=lambda path: path.split(os.sep))
    return result


def files_for(arguments: Sequence[str], root: str, excluded: Excluded, force: bool) -> Found:
    """The same. With `force`, a file that is named itself can be excluded, too."""
    result = discover(arguments, excluded)
    if force:
        result.files = [path for path in result.files if not is_excluded(path, root, excluded)]
    return result


def is_excluded(path: str, root: str, excluded: Excluded) -> bool:
    """Would this file be skipped if it were not named itself? .gitignore does not count."""
    inside = naming.relative_to(path, root).split(os.sep)
    if not excluded.names.isdisjoint(inside):
        return True
    folders = [os.path.join(root, *inside[:count]) for count in range(1, len(inside))]
    return any(
        patterns.verdict(path) or any(patterns.verdict(folder, is_folder=True) for folder in folders)
        for patterns in excluded.patterns
    )


def _expand(argument: str) -> list[str]:
    """The argument itself if it exists, else the matches of a glob that the shell has not expanded."""
    if os.path.exists(argument):
        return [argument]
    if not glob.has_magic(argument):
        raise OutplaceError(f"{argument}: no such file or folder")
    matches = [
        path
        for path in _once(glob.glob(argument, recursive=True))
        if os.path.isdir(path) or (path.endswith(SUFFIXES) and os.path.isfile(path))
    ]
    if not matches:
        raise OutplaceError(f"{argument}: no Python file matches this pattern")
    # `**` matches a folder and everything in it. The outer folders are enough.
    folders = [path.rstrip(os.sep) + os.sep for path in matches if os.path.isdir(path)]
    return [path for path in matches if not any(path != folder[:-1] and path.startswith(folder) for folder in folders)]


def _once(paths: list[str]) -> list[str]:
    """The shortest path to each place. `**` also follows links to folders, which may form a circle."""
    places: dict[tuple[str, str], str] = {}
    for path in sorted(paths, key=len):
        folder, name = os.path.split(path.rstrip(os.sep))
        places.setdefault((os.path.realpath(folder), name), path)
    return list(places.values())


class _Walk:
    """Walks one folder of the command line."""

    def __init__(self, top: str, excluded: Excluded, failures: list[Failure]) -> None:
        self._top = top
        self._names = excluded.names
        self._patterns = [patterns.without(top) for patterns in excluded.patterns]
        self._gitignore = excluded.gitignore
        self._failures = failures

    def files(self) -> Iterator[str]:
        above = [patterns.without(self._top) for patterns in _above(self._top)] if self._gitignore else []
        # No recursion: a tree may be deeper than the stack.
        stack = [(self._top, above)]
        while stack:
            folder, ignored = stack.pop()
            if self._gitignore:
                ignored = [*ignored, *_gitignore_in(folder)]
            for entry in self._entries(folder):
                is_folder = entry.is_dir(follow_symlinks=False)
                if not is_folder and not entry.name.endswith(SUFFIXES):
                    continue
                if self._skipped(entry, is_folder, ignored):
                    continue
                if is_folder:
                    stack.append((entry.path, ignored))
                elif _is_file(entry):
                    yield entry.path

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                return list(entries)
        except OSError as error:
            self._failures.append(Failure(folder, f"cannot be read: {(error.strerror or str(error)).lower()}"))
            return []

    def _skipped(self, entry: os.DirEntry[str], is_folder: bool, ignored: Sequence[Patterns]) -> bool:
        if entry.name in self._names:
            return True
        if any(patterns.verdict(entry.path, is_folder) for patterns in self._patterns):
            return True
        # The nearest .gitignore with a matching pattern decides.
        verdicts = (patterns.verdict(entry.path, is_folder) for patterns in reversed(ignored))
        return next((verdict for verdict in verdicts if verdict is not None), False)


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link in a circle
        return False


def _above(top: str) -> list[Patterns]:
    """The .gitignore files of the repository above `top`, outermost first; none outside a repository."""
    folders = []
    for folder in upwards(top):
        folders.append(folder)
        if os.path.exists(os.path.join(folder, ".git")):
            exclude = Patterns.of_file(folder, os.path.join(folder, ".git", "info", "exclude"))
            inner = [patterns for outer in reversed(folders[1:]) for patterns in _gitignore_in(outer)]
            return [exclude, *inner] if exclude else inner
    return []


def _gitignore_in(folder: str) -> list[Patterns]:
    path = os.path.join(folder, ".gitignore")
    patterns = Patterns.of_file(folder, path) if os.path.isfile(path) else None
    return [patterns] if patterns else []
