"""Path patterns in the syntax of .gitignore, relative to a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from outplace.errors import OutplaceError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


class Patterns:
    """A list of patterns. The last one that matches counts, as in a .gitignore file."""

    def __init__(self, base: str, spec: GitIgnoreSpec) -> None:
        self.base = base
        self._spec = spec

    @classmethod
    def of(cls, base: str, lines: Sequence[str], origin: str) -> Patterns:
        """From the patterns of a setting. `origin` is its name for error messages."""
        from pathspec import GitIgnoreSpec

        anchored = []
        for line in lines:
            try:
                GitIgnoreSpec.from_lines([line])
            except (ValueError, re.error) as error:
                raise OutplaceError(f"{origin}: {line!r} is not a valid file pattern: {error}") from error
            anchored.append(_anchored(line, base))
        return cls(base, GitIgnoreSpec.from_lines(anchored))

    @classmethod
    def of_file(cls, base: str, path: str) -> Patterns | None:
        """From a .gitignore file. Like git, it skips invalid lines and files that it cannot read."""
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
        """The patterns that do not match `folder` itself: an ignored folder that is named is to be checked."""
        from pathspec import GitIgnoreSpec

        relative = self._relative(folder, is_folder=True)
        others = [pattern for pattern in self._spec.patterns if pattern.match_file(relative) is None]
        return self if len(others) == len(self._spec.patterns) else Patterns(self.base, GitIgnoreSpec(others))

    def verdict(self, path: str, is_folder: bool = False) -> bool | None:
        """True if the last matching pattern ignores the path, False if it is negated, None if none matches."""
        include: bool | None = self._spec.check_file(self._relative(path, is_folder)).include
        return include

    def _relative(self, path: str, is_folder: bool) -> str:
        inside = path.startswith(self.base.rstrip(os.sep) + os.sep)
        relative = path[len(self.base.rstrip(os.sep)) + 1 :] if inside else path.lstrip(os.sep)
        return relative.replace(os.sep, "/") + ("/" if is_folder else "")


def _anchored(line: str, base: str) -> str:
    """`/tests/data` for `./tests/data` and for an absolute path under the base, as .gitignore writes it."""
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
