"""Known findings, to be fixed later: the file that `--write-baseline` writes and `--baseline` reads."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from outplace.checking import fingerprint
from outplace.checking.notebook import split_cell
from outplace.errors import OutplaceError
from outplace.files import naming
from outplace.files.writing import reason, replace_text
from outplace.model import Finding
from outplace.version import __version__

SCHEMA = 1

_Key = tuple[str, str, str, str]
"""File, rule, enclosing function, statement."""


def write(path: str, findings: Iterable[Finding]) -> int:
    """Writes a baseline of these findings. Returns their number."""
    counts = Counter(_key(finding, path) for finding in findings)
    names = ("file", "code", "function", "statement")
    entries = [{**dict(zip(names, key, strict=True)), "count": counts[key]} for key in sorted(counts)]
    text = json.dumps({"schema": SCHEMA, "outplace": __version__, "findings": entries}, indent=2) + "\n"
    try:
        replace_text(Path(path), text)
    except OSError as error:
        raise OutplaceError(f"cannot write the baseline to {path}: {reason(Path(path), error)}") from error
    return counts.total()


class Baseline:
    """The findings of a baseline file. Each entry hides as many findings as its count."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._left = _load(path)

    def unknown(self, findings: Iterable[Finding]) -> list[Finding]:
        """The findings that are new."""
        waiting = []
        for finding in findings:
            key = _key(finding, self._path)
            if self._left[key] > 0:
                self._left[key] -= 1
            else:
                waiting.append(finding)
        return [finding for finding in waiting if not self._moved(finding)]

    def stale(self, files: Collection[str], codes: Collection[str]) -> int:
        """How many known findings are gone, in these files and for these rules."""
        home = _home(self._path)
        return sum(
            count
            for (file, code, _, _), count in self._left.items()
            if code in codes and os.path.normpath(os.path.join(home, file)) in files
        )

    def _moved(self, finding: Finding) -> bool:
        """Is it a known finding of a file that was renamed?"""
        fingerprinted = fingerprint.key(finding)
        for key, count in self._left.items():
            if count > 0 and key[1:] == fingerprinted and not os.path.exists(os.path.join(_home(self._path), key[0])):
                self._left[key] -= 1
                return True
        return False


def _home(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))


def _key(finding: Finding, path: str) -> _Key:
    file = split_cell(finding.site.file)[0]
    if os.path.isabs(file):
        file = naming.relative_to(file, _home(path))
    return (file.replace(os.sep, "/"), *fingerprint.key(finding))


def _load(path: str) -> Counter[_Key]:
    try:
        data = json.loads(Path(path).read_bytes())
        return Counter({_entry(entry): int(entry["count"]) for entry in data["findings"]})
    except OSError as error:
        raise OutplaceError(f"cannot read the baseline {path}: {(error.strerror or str(error)).lower()}") from error
    except (ValueError, KeyError, TypeError) as error:
        hint = "outplace check --write-baseline makes one"
        raise OutplaceError(f"{path} is not a baseline; {hint}") from error


def _entry(entry: dict[str, Any]) -> _Key:
    return str(entry["file"]), str(entry["code"]), str(entry["function"]), str(entry["statement"])
