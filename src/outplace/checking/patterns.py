"""Patterns of paths in the syntax of .gitignore, counted from a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from outplace.errors import OutplaceError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


class Patterns:
    """A list of patterns, the last match of which counts, as in one .gitignore file."""

    def __init__(self, base: str, spec: GitIgnoreSpec) -> None:
        self.base = base
        self._spec = spec

    @classmethod
    def of(cls, base: str, lines: Sequence[str], origin: str) -> Patterns:
        """From the patterns of a setting; `origin` names it in the error for a pattern that is none."""
        from pathspec import GitIgnoreSpec

        kept = []
        for line in lines:
            try:
                GitIgnoreSpec.from_lines([line])
            except (ValueError, re.error) as error:
                raise OutplaceError(f"{origin}: {line!r} is no pattern for files: {error}") from error
            kept.append(_anchored(line, base))
        return cls(base, GitIgnoreSpec.from_lines(kept))

    @classmethod
    def of_file(cls, base: str, path: str) -> Patterns | None:
        """From a .gitignore file; like git it passes over lines that are no patterns, and over files it cannot read."""
        from pathspec import GitIgnoreSpec

        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as stream:
                lines = stream.read().splitlines()
        except OSError:
            return None
        try:
            spec = GitIgnoreSpec.from_lines(lines)
        except (ValueError, re.error):
            spec = GitIgnoreSpec.from_lines([line for line in lines if _valid(line)])
        return cls(base, spec)

    def without(self, folder: str) -> Patterns:
        """The patterns that do not match `folder` as a whole: whoever names an ignored folder wants it checked."""
        from pathspec import GitIgnoreSpec

        own = self._relative(folder, is_folder=True)
        kept = [pattern for pattern in self._spec.patterns if pattern.match_file(own) is None]
        return self if len(kept) == len(self._spec.patterns) else Patterns(self.base, GitIgnoreSpec(kept))

    def verdict(self, path: str, is_folder: bool = False) -> bool | None:
        """Whether the last pattern that matches takes the path in (True) or, negated, leaves it out (False)."""
        include: bool | None = self._spec.check_file(self._relative(path, is_folder)).include
        return include

    def _relative(self, path: str, is_folder: bool) -> str:
        inside = path.startswith(self.base.rstrip(os.sep) + os.sep)
        relative = path[len(self.base.rstrip(os.sep)) + 1 :] if inside else path.lstrip(os.sep)
        return relative.replace(os.sep, "/") + ("/" if is_folder else "")


def _anchored(line: str, base: str) -> str:
    """`./tests/data` and an absolute path under the base, in .gitignore's own way to say so."""
    if line.startswith("./"):
        return line[1:]
    if os.path.isabs(line) and line.startswith(base.rstrip(os.sep) + os.sep):
        return line[len(base.rstrip(os.sep)) :]
    return line


def _valid(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return False
    return True
