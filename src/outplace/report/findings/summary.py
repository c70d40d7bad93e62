"""The number of findings: the last line of a report, and `--statistics` (how often each rule was broken)."""

from __future__ import annotations

import json
from collections import Counter

from outplace.checking.notebook import split_cell
from outplace.checking.outcome import Result
from outplace.knowledge.kinds import BY_CODE


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


def statistics_table(result: Result) -> str:
    """`--statistics` as a table of counts, codes, names and what each is about."""
    counts = _by_rule(result)
    if not counts:
        return ""
    digits = max(len(str(count)) for _, count in counts)
    names = max(len(BY_CODE[code].name) for code, _ in counts)
    return "".join(
        f"{count:>{digits}}  {code}  {BY_CODE[code].name:<{names}}  {BY_CODE[code].summary}\n" for code, count in counts
    )


def statistics_json(result: Result) -> str:
    """The same as a JSON list."""
    listed = [
        {"code": code, "kind": rule.family, "rule": rule.name, "count": count, "summary": rule.summary}
        for code, count in _by_rule(result)
        if (rule := BY_CODE[code])
    ]
    return json.dumps(listed, indent=2) + "\n"


def _by_rule(result: Result) -> list[tuple[str, int]]:
    counts = Counter(finding.code for finding in result.findings)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
