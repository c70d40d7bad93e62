"""`--output-format sarif`: SARIF 2.1.0, for GitHub code scanning and other viewers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from outplace.checking import fingerprint
from outplace.checking.notebook import split_cell
from outplace.checking.outcome import Failure, Note, Result
from outplace.knowledge.kind import Kind
from outplace.knowledge.kinds import KINDS, page
from outplace.model import Finding, Site
from outplace.report.findings import places
from outplace.version import __version__

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
BASE = "%SRCROOT%"

_INDEX = {kind.code: index for index, kind in enumerate(KINDS)}


def render(result: Result) -> str:
    """A log of one run."""
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(result)]}
    return json.dumps(log, indent=2) + "\n"


def _run(result: Result) -> dict[str, Any]:
    files = [_uri(split_cell(finding.site.file)[0]) for finding in result.findings]
    names = fingerprint.digests(result.findings, files)
    return {
        "tool": {
            "driver": {
                "name": "outplace",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": [_rule(kind) for kind in KINDS],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {BASE: {"description": {"text": "The root of the repository."}}},
        "invocations": [
            {
                "executionSuccessful": not any(failure.internal for failure in result.failures),
                "toolExecutionNotifications": [
                    *(_notification(failure, "error") for failure in result.failures),
                    *(_notification(note, "note") for note in (*result.left_out, *result.cut)),
                ],
            }
        ],
        "results": [_result(finding, name) for finding, name in zip(result.findings, names, strict=True)],
    }


def _rule(kind: Kind) -> dict[str, Any]:
    """The rule with its page as the help text; viewers show the Markdown where they can."""
    text = page(kind)
    return {
        "id": kind.code,
        "name": kind.name,
        "shortDescription": {"text": f"{kind.summary[0].upper()}{kind.summary[1:]}."},
        "fullDescription": {"text": _first_paragraph(text)},
        "help": {"text": text, "markdown": text},
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["correctness", "pytorch", "autograd"], "precision": "high"},
    }


def _first_paragraph(markdown: str) -> str:
    """What the page says first under its first heading, "What it finds"."""
    sections = markdown.split("\n## ")
    body = sections[1].partition("\n")[2] if len(sections) > 1 else markdown
    return body.strip().split("\n\n")[0]


def _result(finding: Finding, name: str) -> dict[str, Any]:
    saved, fix = finding.saved_by, finding.fix
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": _INDEX[finding.code],
        "level": finding.severity,
        "message": {"text": finding.message},
        "locations": [_location(finding.site, "")],
        "partialFingerprints": {"outplace/v1": name},
    }
    if saved:
        result["relatedLocations"] = [{"id": 1, **_location(saved, "saved for backward here")}]
    if fix:
        result["properties"] = {"fix": {"title": fix.title, "safety": fix.safety}}
    return result


def _location(site: Site, message: str) -> dict[str, Any]:
    path, cell = split_cell(site.file)
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": _artifact(path)}}
    if cell is None:
        location["physicalLocation"]["region"] = _region(site)
    else:  # lines of a cell are not lines of the file
        message = f"{message} (cell {cell}, line {site.line})".strip()
    if message:
        location["message"] = {"text": message}
    if site.function not in ("", "<module>"):
        location["logicalLocations"] = [{"fullyQualifiedName": site.function, "kind": "function"}]
    return location


def _region(site: Site) -> dict[str, Any]:
    region: dict[str, Any] = {
        "startLine": site.line,
        "startColumn": site.column + 1,
        "endLine": site.end_line,
        "endColumn": site.end_column + 1,
    }
    return region | ({"snippet": {"text": site.text}} if site.text else {})


def _notification(about: Failure | Note, level: str) -> dict[str, Any]:
    path, cell = split_cell(about.file)
    place: dict[str, Any] = {"artifactLocation": _artifact(path)}
    if about.line is not None and cell is None:
        place["region"] = {"startLine": about.line}
    return {
        "level": level,
        "message": {"text": places.message(about)},
        "locations": [{"physicalLocation": place}],
    }


def _artifact(path: str) -> dict[str, str]:
    uri = _uri(path)
    return {"uri": uri} if "://" in uri else {"uri": uri, "uriBaseId": BASE}


def _uri(path: str) -> str:
    """Relative to the repository, or else to the working folder; a file elsewhere by its whole address."""
    short = places.in_repository(path)
    return Path(short).as_uri() if os.path.isabs(short) else quote(os.fsencode(short))
