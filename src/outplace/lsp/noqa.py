"""The comment that leaves a finding alone, put where `outplace check` heeds it."""

from __future__ import annotations

import re

from outplace.checking import noqa
from outplace.model import Finding
from outplace.repair.syntax.edits import parses

_LISTED = re.compile(r"(#\s*noqa\s*:\s*[\w-]+(?:\s*,\s*[\w-]+)*)", re.IGNORECASE)


def ignored(text: str, finding: Finding) -> str | None:
    """The text with a comment that switches the finding off; None where no line of it can carry one."""
    for number in dict.fromkeys([finding.site.line, finding.site.end_line]):
        text_lines = text.split("\n")
        if not 0 < number <= len(text_lines):
            continue
        text_lines[number - 1] = _commented(text_lines[number - 1], finding.code)
        made = "\n".join(text_lines)
        # A comment inside a string, or behind a backslash, is none: then the other end of the statement is tried.
        if noqa.read(made, (finding,)).covers(finding) and (parses(made) or not parses(text)):
            return made
    return None


def _commented(line: str, code: str) -> str:
    if _LISTED.search(line):
        return _LISTED.sub(rf"\1, {code}", line, count=1)
    return f"{line.rstrip()}  # noqa: {code}"
