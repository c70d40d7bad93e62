"""The last line of a report: the number of findings."""

from __future__ import annotations

from outplace.checking.notebook import split_cell
from outplace.checking.outcome import Result


def text(result: Result) -> str:
    """`Found 2 errors and 1 warning in 2 files.`"""
    errors = sum(finding.severity == "error" for finding in result.findings)
    warnings = len(result.findings) - errors
    parts = [_count(errors, "error")] * (errors > 0) + [_count(warnings, "warning")] * (warnings > 0)
    files = len({split_cell(finding.site.file)[0] for finding in result.findings})
    found = f"Found {' and '.join(parts)} in {_count(files, 'file')}." if parts else ""
    failed = f"{_count(len(result.failures), 'file')} could not be checked." if result.failures else ""
    left = f"{_count(len(result.left_out), 'file')} not checked to the end." if result.left_out else ""
    return " ".join(filter(None, (found, failed, left))) or "All checks passed!"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
