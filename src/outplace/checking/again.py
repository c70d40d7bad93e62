"""Checks a file again for a repair, with the analysis, the noqa comments and the settings of `outplace check`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from outplace.checking import file_check
from outplace.checking.neighbourhood import surroundings
from outplace.checking.outcome import Note, Outcome
from outplace.checking.settings import Settings
from outplace.repair.syntax.files import Unwritable
from outplace.source.project import OutOfTime, Project

if TYPE_CHECKING:
    from outplace.model import Finding


class Recheck:
    """Checks one file as often as a repair asks. `texts` replace the contents of other files on disk."""

    def __init__(self, path: str, settings: Settings, texts: Mapping[str, str]) -> None:
        self._path, self._settings, self._texts = path, settings, dict(texts)
        self._last = Outcome(path)

    def check(self, path: str, text: str, elsewhere: Mapping[str, str] | None = None) -> list[Finding]:
        """The findings of a file with this text. `elsewhere`: new texts of other files."""
        project = Project(self._settings.roots, {**self._texts, **(elsewhere or {})})
        self._last = file_check.check_text(path, text, project, fixes=False)
        if self._last.failure:
            raise Unwritable(self._last.failure.message, self._last.failure.line)
        if any(note.left_out for note in self._last.notes):
            raise OutOfTime(self._last.findings)
        return list(self._last.findings)

    @property
    def cut(self) -> list[Note]:
        """The functions that the last check has not followed to their end."""
        return [note for note in self._last.notes if note.cut]

    def is_selected(self, finding: Finding) -> bool:
        """Do the settings select this finding?"""
        return bool(self._settings.keep([finding]))

    def others(self) -> dict[str, str]:
        """The texts of the files that import this one, or that it imports. A rewrite must fit them."""
        around = surroundings(self._path, self._last, self._settings)
        return {path: self._texts.get(path, text) for path, text in around.items()}
