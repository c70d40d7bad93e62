"""`--output-format concise`: one line a finding, for editors, grep and logs."""

from __future__ import annotations

from outplace.checking.outcome import Result
from outplace.model import Finding
from outplace.report.findings import places, summary


def render(result: Result, quiet: bool = False) -> str:
    """The findings, the files that could not be analysed, and the count (not with `quiet`)."""
    lines = [*map(line, result.findings), *map(places.message, result.failures)]
    return "".join(f"{text}\n" for text in [*lines, *([] if quiet else [summary.text(result)])])


def line(finding: Finding) -> str:
    """`model.py:12:9: OUT201 [error] message (saved at model.py:10)`."""
    saved = finding.saved_by
    origin = f" (saved at {places.file(saved.file)}:{saved.line})" if saved else ""
    message = " ".join(finding.message.split())
    return f"{places.start(finding.site)}: {finding.code} [{finding.severity}] {message}{origin}"
