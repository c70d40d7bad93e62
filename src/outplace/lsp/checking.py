"""Checks one document, with the settings of its project and the texts of all open documents."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from outplace.checking import config as configs
from outplace.checking import file_check
from outplace.checking.again import Recheck
from outplace.checking.config import Config
from outplace.checking.discovery import is_excluded
from outplace.checking.outcome import Outcome
from outplace.checking.settings import Overrides, Settings, resolve
from outplace.errors import OutplaceError
from outplace.files.reading import TORCH
from outplace.model import Finding, Fix
from outplace.source.project import OutOfTime, Project

NOTHING = Outcome("")


@dataclass(frozen=True)
class Subject:
    """What is analysed. `path` is the URI if the document is not a file. `cells`: the texts of a notebook."""

    path: str
    text: str
    cells: tuple[tuple[str, str], ...] = ()
    """Each cell of a notebook: its type (`code`, `markdown`) and its text."""
    open_texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_file(self) -> bool:
        """Is it a file on disk, or will it be one when it is saved?"""
        return os.path.isabs(self.path)


def settings_for(path: str, folder: str) -> tuple[Settings, str | None]:
    """The settings for a document, and the error in its configuration. `folder`: for a document that is not a file."""
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
    """The findings of the document in the editor. Fixes are made later, on request."""
    if TORCH.decode() not in subject.text:
        return NOTHING
    if subject.is_file and is_excluded(subject.path, settings.root, settings.excluded):
        return NOTHING
    project = Project(settings.roots, subject.open_texts)
    if subject.cells:
        book = {"cells": [{"cell_type": kind, "source": text} for kind, text in subject.cells]}
        outcome = file_check.check_data(subject.path, json.dumps(book).encode(), project, fixes=False)
    else:
        outcome = file_check.check_text(subject.path, subject.text, project, fixes=False)
    return replace(outcome, findings=tuple(_unknown(settings.keep(outcome.findings), settings)))


def _unknown(findings: Sequence[Finding], settings: Settings) -> Sequence[Finding]:
    """The findings that are not in the project's baseline."""
    if settings.baseline is None:
        return findings
    from outplace.checking.baseline import Baseline

    return Baseline(settings.baseline).unknown(findings)


def quick_fix(subject: Subject, settings: Settings, finding: Finding) -> tuple[Fix, str] | None:
    """The fix that `outplace fix` would make for one finding, and the new text."""
    from outplace.repair.drive.from_source import fix_of

    again = _recheck(subject, settings)
    try:
        before = again.check(subject.path, subject.text)
    except OutOfTime:
        return None
    if finding not in before:
        return None
    return fix_of(subject.path, subject.text, finding, before, again.check, lambda: _others(subject, again))


def fix_all(subject: Subject, settings: Settings) -> str:
    """The text after all safe fixes; the same text if there is nothing to fix or it is not valid Python."""
    from outplace.repair.drive.from_source import repair

    again = _recheck(subject, settings)
    try:
        repaired = repair(
            subject.path, subject.text, again.check, again.is_selected, others=lambda: _others(subject, again)
        )
    except Exception:  # a bug of outplace must not stop the editor from saving
        return subject.text
    return repaired.text


def _recheck(subject: Subject, settings: Settings) -> Recheck:
    return Recheck(subject.path, settings, subject.open_texts)


def _others(subject: Subject, again: Recheck) -> dict[str, str]:
    """The files around the document; none if it is not on disk."""
    return again.others() if subject.is_file else {}
