"""`--output-format gitlab`: a Code Quality report, which GitLab shows in merge requests."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from outplace.checking import fingerprint
from outplace.checking.notebook import split_cell
from outplace.checking.outcome import Failure, Note, Result
from outplace.model import Finding
from outplace.report.findings import places

_SEVERITIES = {"error": "major", "warning": "minor"}


def render(result: Result) -> str:
    """A list of issues. A file that could not be analysed, or not to its end, is an issue, too."""
    files = [_path(finding.site.file) for finding in result.findings]
    names = fingerprint.digests(result.findings, files)
    issues = [_finding(finding, name) for finding, name in zip(result.findings, names, strict=True)]
    issues += [_file(failure, "could-not-be-checked", "critical") for failure in result.failures]
    issues += [_file(note, "not-checked-to-its-end", "info") for note in result.left_out]
    return json.dumps(issues, indent=2) + "\n"


def _finding(finding: Finding, name: str) -> dict[str, Any]:
    site = finding.site
    cell = split_cell(site.file)[1]
    message = " ".join(finding.message.split())
    where = {"begin": site.line, "end": site.end_line} if cell is None else {"begin": 1}
    return {
        "description": message if cell is None else f"{message} (cell {cell}, line {site.line})",
        "check_name": finding.code,
        "fingerprint": name,
        "severity": _SEVERITIES[finding.severity],
        "location": {"path": _path(site.file), "lines": where},
    }


def _file(about: Failure | Note, name: str, severity: str) -> dict[str, Any]:
    path = _path(about.file)
    line = about.line if about.line and split_cell(about.file)[1] is None else 1
    return {
        "description": places.message(about),
        "check_name": name,
        "fingerprint": hashlib.blake2b(f"{path}\0{name}".encode(errors="replace"), digest_size=16).hexdigest(),
        "severity": severity,
        "location": {"path": path, "lines": {"begin": line}},
    }


def _path(file: str) -> str:
    """Relative to the repository, as GitLab wants it."""
    return places.in_repository(split_cell(file)[0])
