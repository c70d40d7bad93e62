"""`--statistics`: how often each rule was broken, the most frequent first."""

from __future__ import annotations

import json
from collections import Counter

from outplace.checking.outcome import Result
from outplace.knowledge.kinds import BY_CODE


def as_text(result: Result) -> str:
    """A table of counts, codes, names and what each is about."""
    counts = _counts(result)
    if not counts:
        return ""
    digits = max(len(str(count)) for _, count in counts)
    names = max(len(BY_CODE[code].name) for code, _ in counts)
    return "".join(
        f"{count:>{digits}}  {code}  {BY_CODE[code].name:<{names}}  {BY_CODE[code].summary}\n" for code, count in counts
    )


def as_json(result: Result) -> str:
    """The same as a list."""
    listed = [
        {"code": code, "kind": rule.family, "rule": rule.name, "count": count, "summary": rule.summary}
        for code, count in _counts(result)
        if (rule := BY_CODE[code])
    ]
    return json.dumps(listed, indent=2) + "\n"


def _counts(result: Result) -> list[tuple[str, int]]:
    counts = Counter(finding.code for finding in result.findings)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
