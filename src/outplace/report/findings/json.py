"""`--output-format json`: the list for tools. Fields are added, never renamed."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from outplace.checking.notebook import split_cell
from outplace.checking.outcome import Note, Result
from outplace.files.naming import under_cwd
from outplace.model import Finding, Site
from outplace.report.words import rule_name


def render(result: Result) -> str:
    """One object for each writing line, and one for each file or function that was not checked to its end."""
    entries = [*map(plain, result.findings), *map(_left_out, (*result.left_out, *result.cut))]
    return json.dumps(entries, indent=2) + "\n"


def plain(finding: Finding) -> dict[str, Any]:
    """A finding as the contract has it; a place in a notebook also carries its cell."""
    site, fix = finding.site, finding.fix
    return {
        "kind": finding.kind,
        "code": finding.code,
        "rule": rule_name(finding),
        "severity": finding.severity,
        **{name: value for name, value in _site(site).items() if name not in ("function", "text")},
        "message": finding.message,
        "saved_by": _site(finding.saved_by) if finding.saved_by else None,
        "fix": {"title": fix.title, "safety": fix.safety} if fix else None,
    }


def _left_out(note: Note) -> dict[str, Any]:
    """A note with the fields of a finding, for tools that read these of every object."""
    line = note.line or 1
    site = Site(note.file, line, line, 0, 0, "", "")
    finding = Finding("note", "", "warning", site, note.message)
    return {**plain(finding), "severity": "note"}


def _site(site: Site) -> dict[str, Any]:
    return asdict(site) | _file(site)


def _file(site: Site) -> dict[str, Any]:
    path, cell = split_cell(site.file)
    return {"file": under_cwd(path)} | ({} if cell is None else {"cell": cell})
