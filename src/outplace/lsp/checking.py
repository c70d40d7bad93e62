"""One document analysed: by the settings of its project, with the texts of all documents that are open."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from outplace.checking import config as configs
from outplace.checking import noqa, one
from outplace.checking.config import Config
from outplace.checking.discovery import is_excluded
from outplace.checking.outcome import Outcome
from outplace.checking.settings import Overrides, Settings, resolve
from outplace.errors import OutplaceError
from outplace.files.reading import WORD
from outplace.model import Finding, Fix
from outplace.source.analysis import check_file
from outplace.source.project import Project

NOTHING = Outcome("")


@dataclass(frozen=True)
class Subject:
    """What is analysed. `path` is the document's address where it is no file; `cells` are a notebook's texts."""

    path: str
    text: str
    cells: tuple[tuple[str, str], ...] = ()
    """Each cell of a notebook: its type (`code`, `markdown`) and its text."""
    open_texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_file(self) -> bool:
        """Whether it has a place on disk, or would have one when saved."""
        return os.path.isabs(self.path)


def settings_for(path: str, folder: str) -> tuple[Settings, str | None]:
    """The settings for a document, and what is wrong with its configuration; `folder` is for those that are no file."""
    start = os.path.dirname(path) if os.path.isabs(path) else folder
    try:
        settings = resolve(configs.find(start), Overrides(start))
    except OutplaceError as error:
        return resolve(Config(start), Overrides(start)), str(error)
    try:
        _unknown((), settings)
    except OutplaceError as error:
        return replace(settings, baseline=None), str(error)
    return settings, None


def check(subject: Subject, settings: Settings) -> Outcome:
    """What is found in the document as it stands in the editor, without fixes: those are worked out when asked for."""
    if WORD.decode() not in subject.text:
        return NOTHING
    if subject.is_file and is_excluded(subject.path, settings.root, settings.excluded):
        return NOTHING
    project = Project(settings.roots, subject.open_texts)
    if subject.cells:
        book = {"cells": [{"cell_type": kind, "source": text} for kind, text in subject.cells]}
        outcome = one.check_data(subject.path, json.dumps(book).encode(), project, fixes=False)
    else:
        outcome = one.check_text(subject.path, subject.text, project, fixes=False)
    return replace(outcome, findings=tuple(_unknown(settings.keep(outcome.findings), settings)))


def _unknown(findings: Sequence[Finding], settings: Settings) -> Sequence[Finding]:
    """The findings that the project's baseline does not know."""
    if settings.baseline is None:
        return findings
    from outplace.checking.baseline import Baseline

    return Baseline(settings.baseline).unknown(findings)


def quick_fix(subject: Subject, settings: Settings, finding: Finding) -> tuple[Fix, str] | None:
    """What `outplace fix` would do about one finding, and the text with it."""
    from outplace.repair.drive.from_source import fix_of

    repair = _Repairing(subject, settings)
    before = repair.check(subject.path, subject.text)
    if finding not in before:
        return None
    return fix_of(subject.path, subject.text, finding, before, repair.check, repair.importers)


def fix_all(subject: Subject, settings: Settings) -> str:
    """The text after all safe fixes; the same where there is nothing to fix, or it does not parse."""
    from outplace.repair.drive.from_source import repair

    own = _Repairing(subject, settings)
    try:
        done = repair(
            subject.path,
            subject.text,
            own.check,
            lambda finding: bool(settings.keep([finding])),
            others=own.importers,
        )
    except Exception:  # an editor that saves must not be held up by a fault of ours
        return subject.text
    return done.text


class _Repairing:
    """How a repair looks at the document again, and at the files that use it."""

    def __init__(self, subject: Subject, settings: Settings) -> None:
        self.subject, self.settings = subject, settings

    def check(self, path: str, text: str) -> Sequence[Finding]:
        found = check_file(path, text, Project(self.settings.roots, self.subject.open_texts)).findings
        return noqa.unsuppressed(found, noqa.read(text, found))

    def importers(self) -> dict[str, str]:
        from outplace.repair.drive.neighbourhood import importers

        if not self.subject.is_file:
            return {}
        found = importers(self.subject.path, self.settings)
        return {path: self.subject.open_texts.get(path, text) for path, text in found.items()}
