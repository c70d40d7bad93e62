"""Stored results. A result is valid until the file, or a file that it depends on, changes."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from outplace.checking.outcome import Failure, Note, Outcome
from outplace.files.writing import replace_text
from outplace.knowledge import versions
from outplace.model import Finding, Fix, Site
from outplace.version import __version__

FOLDER = ".outplace_cache"
ABSENT = "-"
"""The digest of a missing file: a dependency may appear later."""


def digest(data: bytes) -> str:
    """A short hash of the content."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class Digests:
    """The digests of files. Each file is read once a run."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def __getitem__(self, path: str) -> str:
        if path not in self._known:
            try:
                with open(path, "rb") as stream:
                    self._known[path] = digest(stream.read())
            except OSError:
                self._known[path] = ABSENT
        return self._known[path]


class Cache:
    """A folder with one small JSON file for each checked file. A damaged entry counts as missing."""

    def __init__(self, folder: str, roots: Sequence[str]) -> None:
        self._folder = Path(folder)
        self._era = _era(roots)
        self._digests = Digests()
        self._ready = False
        self._broken = False

    def get(self, path: str, content_digest: str, fixes: bool = True) -> Outcome | None:
        """The outcome for this file with this digest, if it is still valid. `fixes`: only one with its fixes."""
        try:
            entry = json.loads(self._entry(path).read_bytes())
            if entry["era"] != self._era or entry["path"] != path or entry["digest"] != content_digest:
                return None
            if fixes and entry["findings"] and not entry["fixes"]:
                return None
            if any(self._digests[file] != then for file, then in entry["dependencies"].items()):
                return None
            return _outcome(entry)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def put(self, content_digest: str, outcome: Outcome, fixes: bool = True) -> None:
        """Stores an outcome. If the folder cannot be written, it stops storing, without an error.

        `fixes`: were fixes looked for?
        """
        if self._broken or (outcome.failure and outcome.failure.internal):
            return
        entry = {
            "era": self._era,
            "path": outcome.file,
            "digest": content_digest,
            "dependencies": {file: self._digests[file] for file in outcome.dependencies},
            "fixes": fixes,
            "findings": [_plain(finding) for finding in outcome.findings],
            "failure": astuple(outcome.failure) if outcome.failure else None,
            "notes": [astuple(note) for note in outcome.notes],
        }
        try:
            self._prepare()
            replace_text(self._entry(outcome.file), json.dumps(entry, separators=(",", ":")))
        except OSError:
            self._broken = True

    def _entry(self, path: str) -> Path:
        return self._folder / f"{digest(path.encode('utf-8', 'surrogateescape'))}.json"

    def _prepare(self) -> None:
        """Makes the folder, with files that keep it out of repositories and backups."""
        if self._ready:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        signs = {".gitignore": "*\n", "CACHEDIR.TAG": "Signature: 8a477f597d28d172789f06886806bc55\n"}
        for name, text in signs.items():
            if not (self._folder / name).exists():
                replace_text(self._folder / name, text)
        self._ready = True


def _era(roots: Sequence[str]) -> str:
    """A hash of everything else that a result depends on: outplace, the versions of Python and torch, the settings."""
    torch = str(versions.numbers(versions.installed() or ""))
    parts = [__version__, ".".join(map(str, sys.version_info[:2])), torch, *roots]
    # By content: the dates change with every installation, and CI installs in every run.
    parts += [digest(Path(path).read_bytes()) for path in own_files()]
    return digest("\0".join(parts).encode("utf-8", "surrogateescape"))


def own_files() -> list[str]:
    """The files of outplace that a result depends on."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = [os.path.join(package, name) for name in ("checking", "files", "knowledge", "repair", "source")]
    walks = [walk for folder in folders for walk in os.walk(folder)]
    inner = [os.path.join(folder, name) for folder, _, names in walks for name in names]
    return sorted(path for path in [os.path.join(package, "model.py"), *inner] if path.endswith((".py", ".json")))


def _plain(finding: Finding) -> list[Any]:
    saved, fix = finding.saved_by, finding.fix
    return [
        finding.kind,
        finding.code,
        finding.severity,
        astuple(finding.site),
        finding.message,
        astuple(saved) if saved else None,
        astuple(fix) if fix else None,
        finding.hypothesis,
    ]


def _outcome(entry: dict[str, Any]) -> Outcome:
    failure = entry["failure"]
    return Outcome(
        entry["path"],
        tuple(_finding(*plain) for plain in entry["findings"]),
        Failure(*failure) if failure else None,
        tuple(Note(*note) for note in entry["notes"]),
        tuple(entry["dependencies"]),
    )


def _finding(
    kind: str, code: str, severity: Any, site: Any, message: str, saved: Any, fix: Any, hypothesis: str
) -> Finding:
    saved_by, proposed = Site(*saved) if saved else None, Fix(*fix) if fix else None
    return Finding(kind, code, severity, Site(*site), message, saved_by, proposed, hypothesis=hypothesis)
