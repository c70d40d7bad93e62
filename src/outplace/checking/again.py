"""Checks a file again for a repair, and finds the files that a repair must consider."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from outplace.checking import discovery, file_check
from outplace.checking.outcome import Note, Outcome
from outplace.checking.settings import Settings
from outplace.files import naming
from outplace.repair.syntax.files import Unwritable, read
from outplace.source.project import OutOfTime, Project

if TYPE_CHECKING:
    from outplace.model import Finding


class Recheck:
    """Checks one file as often as a repair asks. `texts` replace the contents of other files on disk."""

    def __init__(self, path: str, settings: Settings, texts: Mapping[str, str]) -> None:
        self._path, self._settings, self._texts = path, settings, dict(texts)
        self._last = Outcome(path)
        self._is_first = True
        self.cut: list[Note] = []
        """The functions that the first check has not followed to their end."""

    def check(self, path: str, text: str, elsewhere: Mapping[str, str] | None = None) -> list[Finding]:
        """The findings of a file with this text. `elsewhere`: new texts of other files."""
        project = Project(self._settings.roots, {**self._texts, **(elsewhere or {})})
        self._last = file_check.check_text(path, text, project, fixes=False)
        if self._is_first:
            self._is_first, self.cut = False, [note for note in self._last.notes if note.cut]
        if self._last.failure:
            raise Unwritable(self._last.failure.message, self._last.failure.line)
        if any(note.left_out for note in self._last.notes):
            raise OutOfTime(self._last.findings)
        return list(self._last.findings)

    def is_selected(self, finding: Finding) -> bool:
        """Do the settings select this finding?"""
        return bool(self._settings.keep([finding]))

    def others(self) -> dict[str, str]:
        """The texts of the files that import this one, or that it imports. A rewrite must fit them."""
        around = surroundings(self._path, self._last, self._settings)
        return {path: self._texts.get(path, text) for path, text in around.items()}


_MOST = 5_000


def surroundings(path: str, outcome: Outcome, settings: Settings) -> dict[str, str]:
    """The texts of the files that a repair of these findings must consider.

    These are the files that it imports, and those that import it or another file that a finding leads to.
    """
    texts: dict[str, str] = {}
    for other in outcome.dependencies:
        with contextlib.suppress(Unwritable):
            texts[other] = read(other).text
    sites = [site for finding in outcome.findings for site in (finding.site, finding.saved_by) if site is not None]
    for file in dict.fromkeys([path, *(site.file for site in sites)]):
        texts.update(importers(file, settings))
    texts.pop(path, None)
    return texts


def importers(path: str, settings: Settings) -> dict[str, str]:
    """The texts of the project's files that import this one."""
    name = os.path.basename(os.path.dirname(path) if path.endswith("__init__.py") else path).removesuffix(".py")
    pattern = re.compile(rf"^\s*(?:from|import)\b[^\n]*\b{re.escape(name)}\b", re.MULTILINE)
    root = settings.root if naming.is_inside(path, settings.root) else os.path.dirname(path)
    texts: dict[str, str] = {}
    if not os.path.isdir(root):
        return texts  # the editor has a document in a folder that is not on disk
    for other in discovery.discover([root], settings.excluded).files[:_MOST]:
        if other == path or not other.endswith(".py"):
            continue
        try:
            with open(other, "rb") as stream:
                if name.encode() not in stream.read():
                    continue
            text = read(other).text
        except (OSError, Unwritable):
            continue
        if pattern.search(text):
            texts[other] = text
    return texts
